//! What a source declares: the public fields of its structs, with the functions that set them, and the methods of its
//! traits. It relies on rustfmt: an item starts in the first column, and ends with a `}` there.

use super::tree::File;
use super::words::{literals, words};

/// A field or a method.
#[derive(Debug)]
pub(super) struct Declared {
    pub(super) owner: String,
    pub(super) name: String,
    pub(super) kind: Kind,
    /// File and line.
    pub(super) at: String,
}

#[derive(Debug)]
pub(super) enum Kind {
    Field {
        /// How calls of the functions begin by which it is given a value: `Owner::new(`, or `.limits(`.
        setters: Vec<String>,
        /// Other crates may write the struct out.
        open: bool,
    },
    Method,
}

/// All that a file declares.
pub(super) fn declared(file: &File) -> Vec<Declared> {
    let items = items(file);
    let functions: Vec<Function> = items.iter().flat_map(functions).collect();
    let mut found = Vec::new();
    for item in &items {
        let is_trait = item.head.contains("trait ");
        let Some(owner) = item.declares() else { continue };
        for (line, text) in &item.lines {
            let name = if is_trait { method(text) } else { field(text) };
            let Some(name) = name else { continue };
            let kind = match is_trait {
                true => Kind::Method,
                false => Kind::Field { setters: setters(&functions, owner, name), open: item.open },
            };
            let at = format!("{}:{line}", file.path);
            found.push(Declared { owner: owner.to_owned(), name: name.to_owned(), kind, at });
        }
    }
    found
}

/// What starts in the first column, with a body.
struct Item<'a> {
    head: &'a str,
    /// There is no `#[non_exhaustive]` above it.
    open: bool,
    lines: Vec<(usize, &'a str)>,
}

impl<'a> Item<'a> {
    /// The name of a public struct or trait.
    fn declares(&self) -> Option<&'a str> {
        let forms = ["pub struct ", "pub trait ", "pub unsafe trait "];
        forms.iter().find_map(|form| words(self.head.strip_prefix(form)?).next())
    }

    /// The type that an inherent implementation is of.
    fn implements(&self) -> Option<&'a str> {
        let rest = self.head.strip_prefix("impl")?;
        let rest = if rest.starts_with('<') { rest.split_once('>')?.1 } else { rest };
        (!rest.contains(" for ")).then(|| words(rest).next()).flatten()
    }
}

fn items(file: &File) -> Vec<Item<'_>> {
    let mut items: Vec<Item<'_>> = Vec::new();
    let (mut inside, mut open) = (false, true);
    for (number, line) in file.code() {
        if inside {
            inside = line != "}";
            items.iter_mut().last().into_iter().for_each(|item| item.lines.push((number, line)));
        } else if line.starts_with("#[") {
            open &= line != "#[non_exhaustive]";
        } else {
            inside = line.ends_with('{');
            if inside {
                items.push(Item { head: line, open, lines: Vec::new() });
            }
            open = true;
        }
    }
    items
}

/// The name of a public field that is declared on this line.
fn field(line: &str) -> Option<&str> {
    let (name, _) = line.strip_prefix("    pub ")?.split_once(':')?;
    Some(name)
}

/// The name of a trait's method that is declared on this line.
fn method(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("    ")?;
    let forms = ["fn ", "async fn ", "unsafe fn "];
    forms.iter().find_map(|form| words(rest.strip_prefix(form)?).next())
}

/// A function of an inherent implementation.
struct Function<'a> {
    owner: &'a str,
    name: &'a str,
    /// Head and body.
    text: String,
}

fn functions<'a>(item: &Item<'a>) -> Vec<Function<'a>> {
    let Some(owner) = item.implements() else { return Vec::new() };
    let mut found: Vec<Function<'a>> = Vec::new();
    for (_, line) in &item.lines {
        let starts = ["    pub fn ", "    pub const fn "].iter().find_map(|form| line.strip_prefix(form));
        if let Some(name) = starts.and_then(|rest| words(rest).next()) {
            found.push(Function { owner, name, text: String::new() });
        }
        found.iter_mut().last().into_iter().for_each(|function| function.text += &format!("{line}\n"));
    }
    found
}

/// How calls begin of those functions that give the field a value of their own or of an argument.
fn setters(functions: &[Function<'_>], owner: &str, field: &str) -> Vec<String> {
    let own = functions.iter().filter(|function| function.owner == owner);
    own.filter_map(|function| {
        let (head, body) = function.text.split_once('{')?;
        let changes = head.contains("self");
        let given: Vec<&str> =
            head.split(['(', ',']).filter_map(|part| words(part.split_once(':')?.0).last()).collect();
        let sets = literals(body, owner).chain(literals(body, "Self")).any(|inside| {
            // A constructor's defaults do not count: what it is not told, it does not set.
            parts(inside).any(|(name, value)| {
                name == field && (changes || words(value).any(|word| given.contains(&word)))
            })
        });
        sets.then(|| match changes {
            true => format!(".{}(", function.name),
            false => format!("{owner}::{}(", function.name),
        })
    })
    .collect()
}

/// The fields that a literal names, with their values.
fn parts(inside: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut depth = 0;
    let split = inside.split(move |c: char| {
        depth += i32::from("({[".contains(c)) - i32::from(")}]".contains(c));
        c == ',' && depth == 0
    });
    split.map(|part| {
        let part = part.trim();
        part.split_once(':').map_or((part, part), |(name, value)| (name.trim(), value))
    })
}
