//! Makes the PTX of cases.

use ptx_sim::TensorMap;

use crate::case::{Case, Columns, MapPlace};
use crate::rule::Rule;

/// A case being made. Its body finds the addresses of the buffers in `%output` and `%input`, the thread's index in
/// `%thread`, and the address of a tensor map in `%map`; it may use `%p0` … `%p15`, `%h0` … `%h31`, `%r0` … `%r63`,
/// `%f0` … `%f31` and `%rd0` … `%rd31`.
#[derive(Debug)]
pub struct Kernel {
    case: Case,
    body: String,
    variables: String,
    version: &'static str,
    /// Blocks of a cluster, if there are clusters.
    cluster: Option<u32>,
}

impl Kernel {
    /// A kernel of one warp without input.
    pub fn new(name: impl Into<String>, body: impl Into<String>) -> Kernel {
        let case = Case {
            name: name.into(),
            ptx: String::new(),
            blocks: 1,
            threads: 32,
            input: vec![0; 16],
            output_bytes: 0,
            tensor_map: None,
            rule: Rule::Exact,
            columns: Columns::default(),
        };
        Kernel { case, body: body.into(), variables: String::new(), version: "8.3", cluster: None }
    }

    /// Threads of the block.
    pub fn threads(mut self, threads: u32) -> Kernel {
        self.case.threads = threads;
        self
    }

    /// Blocks of the grid, so many of them in each cluster.
    pub fn clusters(mut self, blocks: u32, cluster: u32) -> Kernel {
        (self.case.blocks, self.cluster) = (blocks, Some(cluster));
        self
    }

    /// Contents of the input buffer.
    pub fn input(mut self, input: Vec<u8>) -> Kernel {
        self.case.input = input;
        self
    }

    /// Bytes of the output buffer.
    pub fn output(mut self, bytes: usize) -> Kernel {
        self.case.output_bytes = bytes;
        self
    }

    /// The tensor map, whose address counts from the input buffer, and how it is passed.
    pub fn tensor_map(mut self, map: TensorMap, place: MapPlace) -> Kernel {
        self.case.tensor_map = Some((map, place));
        self
    }

    /// Declarations outside the entry.
    pub fn variables(mut self, declarations: &str) -> Kernel {
        self.variables = declarations.to_owned();
        self
    }

    /// The PTX version that it needs, where that is not 8.3.
    pub fn version(mut self, version: &'static str) -> Kernel {
        self.version = version;
        self
    }

    /// How the output is compared.
    pub fn rule(mut self, rule: Rule) -> Kernel {
        self.case.rule = rule;
        self
    }

    /// Where the values of each thread lie.
    pub fn columns(mut self, columns: Columns) -> Kernel {
        self.case.columns = columns;
        self
    }

    /// The finished case.
    pub fn finish(self) -> Case {
        let Kernel { mut case, body, variables, version, cluster } = self;
        let directives =
            cluster.map_or(String::new(), |size| format!(" .explicitcluster .reqnctapercluster {size}, 1, 1"));
        let (parameter, map) = match case.tensor_map {
            None => ("", ""),
            Some((_, MapPlace::Global)) => (", .param .u64 map", ".reg .b64 %map;\nld.param.u64 %map, [map];\n"),
            Some((_, MapPlace::Parameter)) => {
                (", .param .align 64 .b8 map[128]", ".reg .b64 %map;\nmov.b64 %map, map;\ncvta.param.u64 %map, %map;\n")
            }
        };
        case.ptx = format!(
            ".version {version}\n.target sm_90a\n.address_size 64\n{variables}\
             .visible .entry test(.param .u64 output, .param .u64 input{parameter}){directives}\n{{\n\
             .reg .pred %p<16>;\n.reg .b16 %h<32>;\n.reg .b32 %r<64>;\n.reg .f32 %f<32>;\n.reg .b64 %rd<32>;\n\
             .reg .b64 %output, %input;\n.reg .b32 %thread;\n\
             ld.param.u64 %output, [output];\nld.param.u64 %input, [input];\nmov.u32 %thread, %tid.x;\n\
             {map}{body}\nret;\n}}\n"
        );
        case
    }
}
