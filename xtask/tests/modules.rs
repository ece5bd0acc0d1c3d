//! Modules depend one way: among the modules of one folder of a crate there is no circle.

#[path = "../src/circles.rs"]
mod circles;

use circles::{Sources, circles, code, of_workspace};

#[test]
fn the_modules_of_this_workspace_depend_one_way() {
    let found = of_workspace(doc_lint::workspace_root());
    assert!(found.is_empty(), "circles of modules:\n{}", found.join("\n"));
}

/// Sources of the modules with these paths.
fn sources(files: &[(&str, &str)]) -> Sources {
    let module = |path: &str| path.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect();
    files.iter().map(|(path, source)| (module(path), code(source))).collect()
}

#[test]
fn a_circle_is_found_whichever_way_its_modules_name_each_other() {
    let files = [
        ("plan", "use crate::{gpu, problem::{self, Problem}};"),
        ("problem", "mod shape;"),
        ("problem::shape", "fn check() -> super::super::refusal::Refusal {}"),
        ("refusal", "use crate::plan::LIMIT;"),
        ("gpu", ""),
    ];
    let circle =
        ["plan: crate::problem::self", "problem::shape: super::super::refusal::Refusal", "refusal: crate::plan::LIMIT"];
    assert_eq!(circles(&sources(&files)), [circle]);
}

#[test]
fn a_circle_of_files_is_found() {
    let files = sources(&[("block", "use super::copy::Rows;"), ("copy", "use crate::block::Block;")]);
    assert_eq!(circles(&files), [["block: super::copy::Rows", "copy: crate::block::Block"]]);
}

#[test]
fn a_circle_is_found_where_the_root_shows_a_folder() {
    let files = [
        ("", "mod launch;\nmod spec;\npub use launch::*;\npub use spec::*;"),
        ("spec::problem", "use crate::plan::Plan;"),
        ("launch::plan", "use crate::spec::problem::Problem;"),
    ];
    let circle = ["launch::plan: crate::spec::problem::Problem", "spec::problem: crate::plan::Plan"];
    assert_eq!(circles(&sources(&files)), [circle]);
}

#[test]
fn tests_comments_and_names_of_the_parent_make_no_circle() {
    let files = [
        ("plan", "use crate::problem::Problem;\nuse crate::Plan;\n// use crate::plan::tests;\n"),
        (
            "problem",
            "/// See [`crate::plan`].\npub struct Problem;\n\n#[cfg(test)]\nmod tests {\n    use crate::plan::Plan;\n}\n",
        ),
        ("problem::shape", "use super::Problem;\n"),
    ];
    assert_eq!(circles(&sources(&files)), [[""; 0]; 0]);
}
