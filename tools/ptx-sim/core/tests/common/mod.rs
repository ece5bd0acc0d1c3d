//! Kernels for tests, run through the public interface.

use ptx_sim::{
    Finding, FindingClass, GlobalMemory, Launch, LaunchError, Module, Options, Report, Swizzle, TensorElement,
    TensorMap, run,
};

/// A kernel with the parameters `output` and `input`, two addresses, which it finds in `%output` and `%input`.
/// `%lane` is the thread index in x.
pub struct Kernel {
    body: String,
    module_variables: String,
    directives: String,
    threads: u32,
    grid: [u32; 3],
    dynamic_shared: u32,
    architecture: u32,
    version: &'static str,
    input: Vec<u8>,
    output_bytes: u64,
    tensor_map: Option<TensorMap>,
    objects: Option<Objects>,
    options: Options,
}

/// Makes the texture or surface objects of a kernel.
type Objects = Box<dyn Fn(&mut GlobalMemory) -> Vec<u64>>;

/// Result of a kernel.
pub struct Outcome {
    /// The output buffer.
    pub output: Vec<u8>,
    /// The report.
    pub report: Report,
    /// Global memory afterwards.
    pub memory: GlobalMemory,
}

impl Kernel {
    /// A kernel of one warp with 256 bytes of output and 256 bytes of zeros as input.
    pub fn new(body: &str) -> Kernel {
        Kernel {
            body: body.to_owned(),
            module_variables: String::new(),
            directives: String::new(),
            threads: 32,
            grid: [1; 3],
            dynamic_shared: 0,
            architecture: 80,
            version: "8.0",
            input: vec![0; 256],
            output_bytes: 256,
            tensor_map: None,
            objects: None,
            options: Options { threads: 2, instructions_per_warp: 100_000, ..Options::default() },
        }
    }

    /// Declarations outside the entry.
    pub fn with_variables(mut self, declarations: &str) -> Kernel {
        self.module_variables = declarations.to_owned();
        self
    }

    /// Directives between the parameters and the body.
    pub fn with_directives(mut self, directives: &str) -> Kernel {
        self.directives = directives.to_owned();
        self
    }

    /// Compiled for `sm_90a` and run there.
    pub fn on_hopper(mut self) -> Kernel {
        self.architecture = 90;
        self
    }

    /// The PTX version, where that is not 8.0.
    pub fn with_version(mut self, version: &'static str) -> Kernel {
        self.version = version;
        self
    }

    /// Threads of a block.
    pub fn with_threads(mut self, threads: u32) -> Kernel {
        self.threads = threads;
        self
    }

    /// Blocks of the grid.
    pub fn with_blocks(mut self, blocks: u32) -> Kernel {
        self.grid = [blocks, 1, 1];
        self
    }

    /// Blocks of the grid and of its clusters in each dimension.
    pub fn with_clusters(mut self, grid: [u32; 3], cluster: [u32; 3]) -> Kernel {
        (self.grid, self.options.cluster) = (grid, Some(cluster));
        self
    }

    /// Declares `dynamic` as dynamic shared memory of that size.
    pub fn with_dynamic_shared(mut self, bytes: u32) -> Kernel {
        self.dynamic_shared = bytes;
        self.module_variables.push_str(".extern .shared .align 1024 .b8 dynamic[];\n");
        self
    }

    /// Contents of the input buffer.
    pub fn with_input(mut self, input: impl Into<Vec<u8>>) -> Kernel {
        self.input = input.into();
        self
    }

    /// Size of the output buffer.
    pub fn with_output_bytes(mut self, bytes: u64) -> Kernel {
        self.output_bytes = bytes;
        self
    }

    /// Adds a parameter that holds a tensor map of the input, whose generic address is in `%map`.
    pub fn with_tensor_map(mut self, map: TensorMap) -> Kernel {
        self.tensor_map = Some(map);
        self
    }

    /// Adds a parameter of up to 4 handles, which are in `%object0` to `%object3`.
    pub fn with_objects(mut self, objects: impl Fn(&mut GlobalMemory) -> Vec<u64> + 'static) -> Kernel {
        self.objects = Some(Box::new(objects));
        self
    }

    /// Simulator options.
    pub fn with_options(mut self, options: Options) -> Kernel {
        self.options = options;
        self
    }

    /// The whole PTX. The body begins in line 16 of kernels without module variables.
    pub fn text(&self) -> String {
        let Kernel { body, module_variables, directives, .. } = self;
        let target = if self.architecture == 90 { "sm_90a" } else { "sm_80" };
        let header = format!(".version {}\n.target {target}\n.address_size 64\n", self.version);
        let registers =
            ".reg .pred %p<16>;\n.reg .b16 %h<32>;\n.reg .b32 %r<64>;\n.reg .f32 %f<32>;\n.reg .b64 %rd<32>;";
        let (parameter, map) = match self.tensor_map {
            None => ("", ""),
            Some(_) => {
                (", .param .align 64 .b8 map[128]", ".reg .b64 %map;\nmov.b64 %map, map;\ncvta.param.u64 %map, %map;\n")
            }
        };
        let (objects, handles) = match self.objects {
            None => ("", String::new()),
            Some(_) => {
                let load = |index| format!("ld.param.u64 %object{index}, [objects+{}];\n", 8 * index);
                (
                    ", .param .align 8 .b8 objects[32]",
                    format!(".reg .b64 %object<4>;\n{}", (0..4).map(load).collect::<String>()),
                )
            }
        };
        format!(
            "{header}{module_variables}.visible .entry test(.param .u64 output, .param .u64 input{parameter}{objects}){directives}\n{{\n{registers}\n\
             .reg .b64 %output, %input;\n.reg .b32 %lane;\nld.param.u64 %output, [output];\n\
             ld.param.u64 %input, [input];\nmov.u32 %lane, %tid.x;\n{map}{handles}{body}\nret;\n}}\n"
        )
    }

    /// Runs it.
    pub fn try_run(&self) -> Result<Outcome, LaunchError> {
        let text = self.text();
        let module = Module::parse(&text, "test.ptx").unwrap_or_else(|error| panic!("{error}\n{text}"));
        let mut memory = GlobalMemory::new();
        let output = memory.allocate("output", self.output_bytes).expect("allocating the output");
        let input = memory.allocate("input", self.input.len() as u64).expect("allocating the input");
        memory.write(input, &self.input).expect("writing the input");
        let (output_address, input_address) = (output.to_le_bytes(), input.to_le_bytes());
        let mut params: Vec<&[u8]> = vec![&output_address, &input_address];
        let mut map_bytes = [0; 128];
        if let Some(map) = &self.tensor_map {
            let map = TensorMap { address: input.wrapping_add(map.address), ..map.clone() };
            let address = memory.allocate_tensor_map("map", map).expect("a tensor map that can be used");
            memory.read(address, &mut map_bytes).expect("reading the tensor map");
            params.push(&map_bytes);
        }
        let handles = self.objects.as_ref().map(|make| {
            let handles = make(&mut memory);
            (0..4).flat_map(|index| handles.get(index).unwrap_or(&0).to_le_bytes()).collect::<Vec<u8>>()
        });
        params.extend(handles.as_deref());
        let launch = Launch {
            entry: "test",
            grid: self.grid,
            block: [self.threads, 1, 1],
            dynamic_shared_bytes: self.dynamic_shared,
            params: &params,
            architecture: self.architecture,
        };
        let report = run(&module, &mut memory, &launch, &self.options)?;
        let mut bytes = vec![0; self.output_bytes as usize];
        memory.read(output, &mut bytes).expect("reading the output");
        Ok(Outcome { output: bytes, report, memory })
    }

    /// Runs it; the launch must not be refused.
    pub fn run(&self) -> Outcome {
        self.try_run().unwrap_or_else(|error| panic!("{error}\n{}", self.text()))
    }

    /// Runs it; there must be no findings.
    pub fn run_clean(&self) -> Vec<u8> {
        let outcome = self.run();
        let findings: Vec<String> = outcome.report.findings.iter().map(Finding::to_string).collect();
        assert!(findings.is_empty(), "{}\n{}", findings.join("\n"), self.text());
        outcome.output
    }

    /// Runs it; there must be exactly one finding, of a class.
    pub fn run_faulty(&self, class: FindingClass) -> Finding {
        let findings = self.run().report.findings;
        match findings.as_slice() {
            [finding] if finding.class == class => finding.clone(),
            _ => panic!("expected one finding of class {class:?}, got {findings:#?}\n{}", self.text()),
        }
    }
}

impl Kernel {
    /// Runs it; returns the first finding.
    pub fn first_finding(&self) -> Finding {
        self.run().report.findings.into_iter().next().expect("a finding")
    }

    /// Runs it; there must be findings of a class and no others.
    pub fn run_faults_of(&self, class: FindingClass) -> Vec<Finding> {
        let findings = self.run().report.findings;
        let as_expected = !findings.is_empty() && findings.iter().all(|finding| finding.class == class);
        assert!(as_expected, "expected findings of class {class:?}, got {findings:#?}\n{}", self.text());
        findings
    }
}

/// `%index` is the index of the thread in a grid of blocks of one warp, and `%rd1` its word of the output.
pub const OUTPUT_WORD: &str = ".reg .b32 %index; mov.u32 %index, %ctaid.x; mad.lo.u32 %index, %index, 32, %lane;\n\
    mul.wide.u32 %rd1, %index, 4; add.u64 %rd1, %rd1, %output;\n";

/// A map of the input as 8 rows of 8 elements, of which a box has 4 rows.
pub fn eight_by_eight(element: TensorElement) -> TensorMap {
    TensorMap {
        element,
        address: 0,
        sizes: vec![8, 8],
        strides: vec![32],
        box_sizes: vec![8, 4],
        element_strides: vec![1, 1],
        swizzle: Swizzle::None,
    }
}

/// Output as little-endian words.
pub fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("four bytes"))).collect()
}

/// Words as little-endian bytes.
pub fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Executes `instruction`, which computes `d` (of type `result`) from `a`, `b`, `c`, `e` (of types `operands`), once for
/// each of up to 32 cases, one per lane; what `d` was. Types are `b16`, `b32`, `b64`.
pub fn evaluate(result: &str, operands: &[&str], instruction: &str, cases: &[Vec<u64>]) -> Vec<u64> {
    assert!(cases.len() <= 32, "a case for each lane");
    let names = ["a", "b", "c", "e"];
    let mut body = format!(".reg .{result} d;\n.reg .pred p, q;\n");
    body.push_str("mul.wide.u32 %rd0, %lane, 32;\nadd.u64 %rd0, %rd0, %input;\n");
    for (index, (kind, name)) in operands.iter().zip(names).enumerate() {
        body.push_str(&format!(".reg .{kind} {name};\nld.global.{kind} {name}, [%rd0+{}];\n", 8 * index));
    }
    body.push_str(instruction);
    body.push_str("\nmul.wide.u32 %rd1, %lane, 8;\nadd.u64 %rd1, %rd1, %output;\n");
    body.push_str(&format!("st.global.{result} [%rd1], d;\n"));
    let mut input = Vec::new();
    for lane in 0..32 {
        let case = &cases[lane.min(cases.len() - 1)];
        assert_eq!(case.len(), operands.len(), "a value for each operand");
        for index in 0..4 {
            input.extend_from_slice(&case.get(index).copied().unwrap_or(0).to_le_bytes());
        }
    }
    let output = Kernel::new(&body).with_input(input).run_clean();
    let results = output.chunks_exact(8).map(|value| u64::from_le_bytes(value.try_into().expect("eight bytes")));
    results.take(cases.len()).collect()
}

/// Checks that `instruction` gives the last value of each case from the others.
pub fn check(result: &str, operands: &[&str], instruction: &str, cases: &[&[u64]]) {
    let inputs: Vec<Vec<u64>> = cases.iter().map(|case| case[..case.len() - 1].to_vec()).collect();
    let results = evaluate(result, operands, instruction, &inputs);
    for (case, got) in cases.iter().zip(results) {
        let (expected, inputs) = case.split_last().expect("a result");
        assert_eq!(got, *expected, "{instruction} of {inputs:#x?}: got {got:#x}, expected {expected:#x}");
    }
}

/// Checks an instruction whose operands and result are f32.
pub fn check_f32(operands: usize, instruction: &str, cases: &[&[f32]]) {
    let cases: Vec<Vec<u64>> =
        cases.iter().map(|case| case.iter().map(|value| u64::from(value.to_bits())).collect()).collect();
    let cases: Vec<&[u64]> = cases.iter().map(Vec::as_slice).collect();
    check("b32", &["b32"; 4][..operands], instruction, &cases);
}
