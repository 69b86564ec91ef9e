//! Rules about documents: what they say of the code has to be so.

use super::Breach;
use super::tree::Tree;

/// Where each class of tests is described, and where the guide says what tests show.
const TESTING: [&str; 2] = ["docs/testing.md", "docs/guide/production.md"];

pub(super) fn links(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for file in tree.ending(".md") {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (i, line) in file.text.lines().enumerate() {
            for target in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                let target = target.split('#').next().unwrap_or_default();
                let outside = target.is_empty() || target.contains("://");
                // Of files that are no text, such as licences, only the name's form is known.
                if !outside && target.contains('.') && !tree.has(&join(folder, target)) {
                    breaches.push(file.at(i + 1, &format!("links to `{target}`, which is not there")));
                }
            }
        }
    }
    breaches
}

/// A path from a folder, with `..` worked off.
fn join(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Every `name` in the last column of a table, where that is called `tests`, is a test function, or a file of tests.
pub(super) fn tests_exist(tree: &Tree) -> Vec<Breach> {
    TESTING.iter().flat_map(|page| tests_of(page, tree)).collect()
}

fn tests_of(page: &str, tree: &Tree) -> Vec<Breach> {
    let Some(text) = tree.text(page) else { return vec![format!("{page} is not there")] };
    let mut breaches = Vec::new();
    let mut tests_in_last = false;
    for (i, line) in text.lines().enumerate() {
        let Some(row) = line.trim().strip_prefix('|') else {
            tests_in_last = false;
            continue;
        };
        let last = row.trim_end_matches('|').rsplit('|').next().unwrap_or_default().trim();
        if last == "tests" {
            tests_in_last = true;
        } else if tests_in_last {
            let names = last.split('`').skip(1).step_by(2);
            let unknown = names.filter(|name| !is_test(tree, name));
            breaches.extend(unknown.map(|name| format!("{page}:{}: there is no test `{name}`", i + 1)));
        }
    }
    breaches
}

fn is_test(tree: &Tree, name: &str) -> bool {
    if name.contains('/') {
        return tree.has(name);
    }
    let function = name.rsplit("::").next().unwrap_or(name);
    tree.rust().any(|file| has_test(&file.path, &file.text, function))
}

/// Whether a file has a test function of this name: one that the test harness runs, or a case of the conformance suite.
fn has_test(path: &str, text: &str, function: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let forms = [format!("fn {function}("), format!("fn {function}<")];
    let is_here = |line: &str| forms.iter().any(|form| line.contains(form.as_str()));
    lines.iter().enumerate().filter(|(_, line)| is_here(line)).any(|(at, _)| {
        let above =
            lines[..at].iter().rev().take_while(|line| line.starts_with("#[") || line.starts_with("//"));
        let mut attributes = above.filter(|line| line.starts_with("#["));
        path.starts_with(CASES)
            || attributes.any(|line| line.starts_with("#[test]") || line.contains("::test"))
    })
}

/// The cases of the conformance suite, which its table runs.
const CASES: &str = "verify/conformance/src/cases/";
