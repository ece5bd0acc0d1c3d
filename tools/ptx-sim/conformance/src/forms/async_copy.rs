//! Copies of single threads from global to shared memory.

use ptx_sim::expand_forms;

use crate::case::Case;
use crate::kernel::Kernel;
use crate::values::Values;

/// Fills 64 bytes of shared memory for each thread with ones; `%r0` and `%rd1` are its part and that of the input.
const SETUP: &str = ".shared .align 16 .b8 tile[2048];\nmov.u32 %r0, tile;\nmad.lo.u32 %r0, %thread, 64, %r0;\n\
    mad.wide.u32 %rd1, %thread, 64, %input;\nmad.wide.u32 %rd2, %thread, 64, %output;\nmov.b64 %rd3, -1;\n";

/// The cases of this class.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for form in expand_forms("cp.async.{ca,cg}.{shared,shared::cta}.global{,.L2::64B,.L2::128B,.L2::256B}") {
        let sizes: &[u32] = if form.contains(".ca") { &[4, 8, 16] } else { &[16] };
        for size in sizes {
            cases.push(copy(&form, *size, "", ""));
        }
    }
    for (form, size) in
        [("cp.async.ca.shared.global", 4), ("cp.async.ca.shared.global", 8), ("cp.async.cg.shared.global", 16)]
    {
        // The first 0, 1, 2 … bytes of the source.
        let setup = format!("rem.u32 %r1, %thread, {};\n", size + 1);
        cases.push(copy(form, size, ", %r1", &setup));
        cases.push(copy(form, size, ", %p1", "and.b32 %r1, %thread, 1;\nsetp.ne.u32 %p1, %r1, 0;\n"));
    }
    cases.push(groups());
    cases
}

fn transfer(instruction: &str, offset: impl Fn(usize) -> String) -> String {
    (0..64).step_by(16).map(|at| instruction.replace("{}", &offset(at))).collect()
}

fn copy(form: &str, size: u32, limit: &str, setup: &str) -> Case {
    let fill = transfer("st.shared.v2.b64 [%r0+{}], {%rd3, %rd3};\n", |at| at.to_string());
    let out = transfer("ld.shared.v2.b64 {%rd4, %rd5}, [%r0+{}];\nst.global.v2.b64 [%rd2+{}], {%rd4, %rd5};\n", |at| {
        at.to_string()
    });
    let body = format!(
        "{SETUP}{fill}{setup}{form} [%r0+16], [%rd1+32], {size}{limit};\ncp.async.commit_group;\ncp.async.wait_group 0;\n{out}"
    );
    let name = format!("{form} of {size}{}", limit.replace(", ", " "));
    let input = Values::of(&name).bytes(2048);
    Kernel::new(name, body).input(input).output(2048).finish()
}

/// Copies in two groups, waited for one after the other, and one outside of groups.
fn groups() -> Case {
    let copy = |to: usize| format!("cp.async.cg.shared.global [%r0+{to}], [%rd1+{to}], 16;\n");
    let out = |at: usize| {
        format!("ld.shared.v2.b64 {{%rd4, %rd5}}, [%r0+{at}];\nst.global.v2.b64 [%rd2+{at}], {{%rd4, %rd5}};\n")
    };
    let body = format!(
        "{SETUP}{}cp.async.commit_group;\n{}cp.async.commit_group;\ncp.async.wait_group 1;\n{}cp.async.wait_group 0;\n{}{}\
         cp.async.wait_all;\n{}",
        copy(0),
        copy(16),
        out(0),
        out(16),
        copy(32),
        out(32)
    );
    let name = "cp.async groups";
    Kernel::new(name, body).input(Values::of(name).bytes(2048)).output(2048).finish()
}
