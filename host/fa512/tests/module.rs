//! The program's own PTX, planned with the contract and launched by the library, on the simulated driver.

mod common;

use std::ffi::{CStr, CString};
use std::path::PathBuf;

use fa512::contract::args::{ForwardArgs, TensorMaps};
use fa512::contract::plan::{Launch, Plan};
use fa512::contract::variants::{VARIANTS, Variant};
use fa512::{Element, Error, GpuFacts, Layout, Mask, Module, Problem, Shape, encode_tensor_maps};

use common::attention::Case;
use common::{findings, gpu, machine, raw};

/// The files of a PTX folder that hold kernels.
const FILES: [&str; 2] = ["sm_80.ptx", "sm_90a.ptx"];

/// The PTX with which the library under test was built; `None`, with a message on stderr, if it no longer exists.
fn ptx(file: &str) -> Option<CString> {
    let folder = option_env!("FA512_PTX_DIR").map_or_else(|| "../../target/ptx".into(), PathBuf::from);
    let path = folder.join(file);
    match std::fs::read(&path) {
        Ok(text) => Some(CString::new(text).expect("PTX holds no NUL")),
        Err(error) => {
            eprintln!("not tested: {}: {error}", path.display());
            None
        }
    }
}

/// A kernel with an empty body that takes parameters of these sizes.
fn kernel(entry: &str, parameters: &[usize]) -> CString {
    let parameter = |(index, bytes)| format!(".param .align 8 .b8 p{index}[{bytes}]");
    let parameters: Vec<_> = parameters.iter().enumerate().map(parameter).collect();
    let parameters = parameters.join(", ");
    CString::new(format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry {entry}({parameters})\n{{\nret;\n}}\n"
    ))
    .expect("no NUL")
}

/// The variants that compute `problem`.
fn variants(problem: Problem) -> impl Iterator<Item = &'static Variant<'static>> {
    VARIANTS.iter().filter(move |variant| variant.check_accepts(&problem).is_ok())
}

fn planned(case: &Case, variant: Variant<'static>) -> Launch<'static> {
    let facts = GpuFacts { name: "test", architecture: 90, multiprocessors: 2, shared_bytes_per_block: 227 << 10 };
    let mut launch = Plan::new(&case.problem, variant, &facts).unwrap().bind(case.addresses()).unwrap();
    encode_tensor_maps(&mut launch).unwrap();
    launch
}

/// Sizes of the arguments of a launch.
fn argument_bytes(launch: &Launch<'_>) -> &'static [usize] {
    match launch.tensor_maps() {
        None => &[size_of::<ForwardArgs>()],
        Some(_) => &[size_of::<ForwardArgs>(), size_of::<TensorMaps>()],
    }
}

fn problem(mask: Mask) -> Problem {
    Problem::new(Shape::new(1, 2, 77), mask, Layout::Bshd).unwrap()
}

/// One for every mask and element type.
fn problems() -> impl Iterator<Item = Problem> {
    let masks = [Mask::Full, Mask::Causal, Mask::Window];
    masks.into_iter().flat_map(|mask| Element::ALL.map(|element| problem(mask).with_element(element)))
}

#[test]
fn every_kernel_of_a_module_computes_what_it_was_planned_for() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    let mut launched = 0;
    for file in FILES {
        let Some(ptx) = ptx(file) else { return };
        let module = Module::load(&ptx).unwrap();
        for problem in problems() {
            let mut case = Case::new(problem, &stream);
            for variant in variants(problem) {
                let kernel = match module.kernel(variant) {
                    Err(Error::NoEntry { .. }) => continue,
                    kernel => kernel.unwrap(),
                };
                for overlap in [true, false] {
                    let launch = planned(&case, *variant);
                    // SAFETY: the tensors live until the check has synchronised, and so does the module.
                    unsafe { kernel.launch(&launch, raw(&stream), overlap) }.unwrap();
                    case.check(true);
                    case.clear();
                    launched += 1;
                }
            }
        }
    }
    let all = problems().flat_map(variants).count();
    assert_eq!(launched, 2 * all, "every variant is in one of {FILES:?}");
    // Other tests of this process load text that is not PTX.
    let findings = findings();
    let of_launches: Vec<_> = findings.lines().filter(|line| !line.contains("cuLibrary")).collect();
    assert!(of_launches.is_empty(), "{findings}");
}

#[test]
fn ptx_that_does_not_compile_is_refused_with_the_compilers_words() {
    let Some(()) = machine() else { return };
    let _stream = gpu(0);
    let broken = c".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry broken()\n{\nno such thing;\n}\n";
    let error = Module::load(broken).err().expect("it does not compile");
    let Error::Cuda { action, name, log, .. } = &error else { panic!("{error}") };
    assert_eq!((action.as_str(), name.as_str()), ("loading PTX", "CUDA_ERROR_INVALID_PTX"));
    assert!(log.contains('6'), "the line: {log}");
    std::thread::scope(|scope| {
        // Without a context, a driver may report an invalid kernel only when it is looked up.
        let refused = scope.spawn(|| Module::load(broken).and_then(|module| module.check_parameters("broken", &[])));
        let error = refused.join().unwrap().unwrap_err().to_string();
        assert!(error.contains("loading PTX: CUDA_ERROR_INVALID_PTX") && error.contains('6'), "{error}");
    });
}

#[test]
fn a_kernel_that_is_another_is_refused() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    let case = Case::new(problem(Mask::Full), &stream);
    let [one, two] = [0, 1].map(|index| *variants(problem(Mask::Full)).nth(index).expect("there are two"));
    let load = |ptx: &CStr| Module::load(ptx).unwrap();
    let refusal = |module: &Module| module.kernel(&one).err().expect("it is another").to_string();

    let message = refusal(&load(&kernel("other", &[8])));
    assert_eq!(message, format!("the module has no kernel {}", one.entry));
    let message = refusal(&load(&kernel(one.entry, &[8])));
    assert!(message.starts_with(one.entry) && message.contains("takes parameters of [8"), "{message}");
    let message = load(&kernel("a", &[8, 16])).check_parameters("a", &[8, 4]).unwrap_err().to_string();
    assert!(message.contains("a takes parameters of [8, 16] bytes, but would be given [8, 4]"), "{message}");

    let module = load(&kernel(one.entry, argument_bytes(&planned(&case, one))));
    let launch = planned(&case, two);
    // SAFETY: nothing is launched.
    let error = unsafe { module.kernel(&one).unwrap().launch(&launch, raw(&stream), true) }.unwrap_err();
    assert!(error.to_string().contains(two.entry) && error.to_string().starts_with(one.entry), "{error}");
    assert!(case.is_untouched());
}

#[test]
fn a_function_of_a_module_is_one_of_the_current_context() {
    let Some(()) = machine() else { return };
    let stream = gpu(0);
    let module = Module::load(&kernel("mine", &[8])).unwrap();
    let function = module.function("mine").unwrap();
    assert!(!function.is_null() && function == module.function("mine").unwrap());
    assert!(matches!(module.function("nobody's"), Err(Error::NoEntry { .. })));
    assert!(matches!(module.function("with\0NUL"), Err(Error::NoEntry { .. })));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let error = module.kernel(&VARIANTS[0]).err().expect("no context");
            assert_eq!(error, Error::NoContext);
            assert!(module.function("mine").unwrap_err().to_string().contains("INVALID_CONTEXT"));
        });
    });
    drop(stream);
}
