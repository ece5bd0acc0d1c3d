//! Each check on correct and incorrect documents, and on the documents of this workspace.

use std::fs;
use std::path::Path;

use clap::Parser;
use doc_lint::commands::{self, Form};
use doc_lint::{Document, Problem, Tree, links, paths, records};

/// A workspace with a document and a source.
fn workspace(text: &str) -> (Tree, Vec<Document>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::create_dir_all(folder.path().join("docs")).expect("a folder");
    fs::create_dir_all(folder.path().join("host/src")).expect("a folder");
    fs::write(folder.path().join("host/src/main.rs"), "").expect("a file");
    fs::write(folder.path().join("docs/other.md"), "# How fast: `f16`, S=512\n").expect("a file");
    fs::write(folder.path().join("docs/page.md"), text).expect("a file");
    let tree = Tree::read(folder.path()).expect("a tree");
    let documents = tree.documents().expect("documents");
    (tree, documents)
}

fn shown(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(Problem::to_string).collect()
}

#[test]
fn the_links_of_this_workspace_lead_somewhere() {
    let tree = Tree::read(doc_lint::workspace_root()).expect("the workspace");
    let documents = tree.documents().expect("its documents");
    assert!(documents.iter().any(|document| document.path == Path::new("README.md")), "README.md was not looked at");
    doc_lint::assert_none(&links::check(&tree, &documents));
}

#[test]
fn the_files_that_the_documents_of_this_workspace_name_exist() {
    let tree = Tree::read(doc_lint::workspace_root()).expect("the workspace");
    doc_lint::assert_none(&paths::check(&tree, &tree.documents().expect("its documents")));
}

#[test]
fn the_records_of_this_workspace_are_few_and_of_clean_commits() {
    let tree = Tree::read(doc_lint::workspace_root()).expect("the workspace");
    let folder = Path::new("docs/results");
    assert!(tree.files_in(folder).count() > 1, "there are no records");
    doc_lint::assert_none(&records::check(&tree, folder).expect("records"));
}

#[test]
fn records_of_dirty_commits_and_too_many_bytes_are_problems() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
    let problems = || {
        let tree = Tree::read(folder.path()).expect("a tree");
        shown(&records::check(&tree, Path::new("")).expect("records"))
    };
    write("clean.json", r#"{"git_commit": "0123-dirty-not", "git_commit":null, "note": "a-dirty"}"#);
    assert!(problems().is_empty(), "{:?}", problems());
    write("dirty.jsonl", "{\n\"git_commit\":\"0123-dirty\"}");
    write("large.csv", &"0".repeat(records::LIMIT));
    let problems = problems();
    assert!(problems[0].starts_with("dirty.jsonl:2: a record of a commit"), "{problems:?}");
    assert!(problems.len() == 2 && problems[1].contains("over 3000000"), "{problems:?}");
}

#[test]
fn build_outputs_and_hidden_folders_are_not_looked_at() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for output in ["target/dist", ".toolchain", "elsewhere"] {
        fs::create_dir_all(folder.path().join(output)).expect("a folder");
        fs::write(folder.path().join(output).join("page.md"), "[a](gone.md)").expect("a file");
    }
    fs::write(folder.path().join("elsewhere/CACHEDIR.TAG"), "").expect("a file");
    let documents = Tree::read(folder.path()).and_then(|tree| tree.documents()).expect("documents");
    assert!(documents.is_empty(), "{documents:?}");
}

#[test]
fn a_link_must_lead_to_a_file_and_a_heading() {
    let good =
        "[a](other.md) [b](../host/src) [c](other.md#how-fast-f16-s512) [d](https://example.org) [e](#top)\n# Top\n";
    let (tree, documents) = workspace(good);
    assert_eq!(links::check(&tree, &documents), []);

    let (tree, documents) = workspace("# Top\n\n[a](gone.md)\n[b](other.md#slow)\n[c](../../outside)\n");
    assert_eq!(
        shown(&links::check(&tree, &documents)),
        [
            "docs/page.md:3: link to `gone.md`: there is no docs/gone.md",
            "docs/page.md:4: link to `other.md#slow`: docs/other.md has no heading `#slow`",
            "docs/page.md:5: link to `../../outside` leaves the workspace",
        ]
    );
}

#[test]
fn a_file_that_is_named_must_exist() {
    let (tree, documents) = workspace("`host/src/`, `host/src/main.rs:7`, `src/main.rs`, `host/*.rs`, `q/gone.npy`\n");
    assert_eq!(paths::check(&tree, &documents), []);

    let (tree, documents) = workspace("`host/src/gone`\n`lib.rs`\n");
    assert_eq!(
        shown(&paths::check(&tree, &documents)),
        ["docs/page.md:1: `host/src/gone` is not in the workspace", "docs/page.md:2: `lib.rs` is not in the workspace"]
    );
}

/// A program with common kinds of commands.
#[derive(Parser, Debug)]
struct Program {
    #[command(subcommand)]
    command: Subcommand,
}

#[derive(clap::Subcommand, Debug)]
enum Subcommand {
    Run {
        #[arg(long)]
        seq: Option<u32>,
    },
    Compare {
        new: String,
        old: String,
    },
}

const FORMS: &[Form<'_>] = &[
    Form { words: &["fa512"], arguments: &[] },
    Form { words: &["cargo", "xtask", "run", "--"], arguments: &["run"] },
];

#[test]
fn commands_that_are_accepted() {
    let text = "\
`fa512`, `fa512 run`, `fa512 compare`, `fa512 run --seq N`, `fa512 bench …`\n\
\n\
    fa512 run --seq 1          what it does, in other words\n\
    $ RUST_LOG=1 target/release/fa512 run --seq 2 > log.txt 2>&1   # a comment\n\
    cd x && fa512 run | tee log; fa512 compare new.json \\\n\
        old.json\n\
    cargo xtask run -- --seq 3\n\
    fa512 run --help\n\
    fa512-x/smoke.sh --unknown\n";
    let (_, documents) = workspace(text);
    assert_eq!(commands::check::<Program>(&documents, FORMS), []);
}

#[test]
fn commands_that_are_not_accepted() {
    let text = "\
# Top\n\
\n\
`fa512 run --sequence 1`\n\
\n\
```sh\n\
make && fa512 run --seq one\n\
fa512 compare \\\n\
    new.json\n\
cargo xtask run -- --fast\n\
```\n";
    let (_, documents) = workspace(text);
    let problems = shown(&commands::check::<Program>(&documents, FORMS));
    let expected = [
        ("docs/page.md:6: `fa512 run --seq one` is not accepted: error: invalid value 'one'", "--seq"),
        ("docs/page.md:7: `fa512 compare new.json` is not accepted: error: the following required arguments", "<OLD>"),
        ("docs/page.md:9: `cargo xtask run -- --fast` is not accepted: error: unexpected argument '--fast'", ""),
        ("docs/page.md:3: `fa512 run --sequence 1` is not accepted: error: unexpected argument '--sequence'", ""),
    ];
    assert_eq!(problems.len(), expected.len(), "{problems:#?}");
    for (problem, (start, part)) in problems.iter().zip(expected) {
        assert!(problem.starts_with(start) && problem.contains(part), "{problem}\nshould start with {start}");
    }
}
