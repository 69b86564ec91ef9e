//! The repository's own rules, checked by itself.
//!
//! A rule is a function from the [`Tree`] to what breaks it. They look at text, not at syntax, which is enough because
//! the house style is uniform: comments start their line, and a file's unit tests stand at its end.

mod code;
mod contract;
mod crates;
mod declared;
mod docs;
mod tree;
mod words;

use std::path::Path;

use crate::Result;
pub use tree::Tree;

/// A breach of a rule: where, and what is wrong.
pub type Breach = String;

/// A rule: its name, and how to find what breaks it.
pub type Rule = (&'static str, fn(&Tree) -> Vec<Breach>);

/// All rules.
pub const RULES: &[Rule] = &[
    ("files stay short enough to read", code::short_files),
    ("modules are name.rs beside name/, never mod.rs", code::no_mod_files),
    ("hand-written atomics stay in their places", code::atomics),
    ("unsafe code stays in its places", code::unsafe_places),
    ("panics are caught in one place", code::panics),
    ("every unsafe block says why it is sound", code::safety_comments),
    ("nothing is left unfinished or switched off", code::finished),
    ("the engine is pure", code::pure_engine),
    ("the shell stands below the user types", code::shell_below_user_types),
    ("the runtime names its backends in one place", code::backends_in_one_place),
    ("crates depend downwards only", crates::downwards),
    ("kernels' texts are read in two places", crates::readers),
    ("crates share the workspace's lints and dependencies", crates::uniform),
    ("documents link to files that exist", docs::links),
    ("tests named in docs/testing.md and the guide exist", docs::tests_exist),
    ("the contract has nothing that only one side uses", contract::used_on_both_sides),
    ("docs/backend.md quotes what is compiled and run", contract::page_quotes_the_example),
];

/// Checks all rules, and prints each.
pub fn report(root: &Path) -> Result<()> {
    let tree = Tree::read(root)?;
    let mut broken = 0;
    for (name, rule) in RULES {
        let breaches = rule(&tree);
        println!("{} {name}", if breaches.is_empty() { "ok    " } else { "BROKEN" });
        breaches.iter().for_each(|breach| println!("         {breach}"));
        broken += usize::from(!breaches.is_empty());
    }
    match broken {
        0 => Ok(()),
        _ => Err(format!("{broken} of {} rules are broken", RULES.len())),
    }
}
