//! The repository's text files, read once.

use std::path::Path;

use crate::Result;

/// The files that rules look at, by their path from the root.
#[derive(Debug, Default)]
pub struct Tree {
    files: Vec<File>,
}

/// One file.
#[derive(Debug)]
pub(super) struct File {
    pub(super) path: String,
    pub(super) text: String,
}

const ENDINGS: [&str; 4] = [".rs", ".toml", ".md", ".svg"];

impl Tree {
    /// Reads a repository.
    pub fn read(root: &Path) -> Result<Tree> {
        let mut tree = Tree::default();
        tree.read_folder(root, "")?;
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    /// A tree of these files: paths with their text. For the rules' own tests.
    pub fn of(files: &[(&str, &str)]) -> Tree {
        let file = |(path, text): &(&str, &str)| File { path: (*path).to_owned(), text: (*text).to_owned() };
        Tree { files: files.iter().map(file).collect() }
    }

    fn read_folder(&mut self, root: &Path, folder: &str) -> Result<()> {
        let at = root.join(folder);
        let entries = std::fs::read_dir(&at).map_err(|e| format!("{}: {e}", at.display()))?;
        for entry in entries {
            let entry = entry.map_err(|e| format!("{}: {e}", at.display()))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && !name.starts_with('.') && name != "target" {
                self.read_folder(root, &path)?;
            } else if ENDINGS.iter().any(|ending| name.ends_with(ending)) {
                let text = std::fs::read_to_string(entry.path()).map_err(|e| format!("{path}: {e}"))?;
                self.files.push(File { path, text });
            }
        }
        Ok(())
    }

    /// Rust sources.
    pub(super) fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }

    /// Rust sources of what is shipped: neither tests nor benches nor examples nor the effects.
    pub(super) fn shipped(&self) -> impl Iterator<Item = &File> {
        self.rust().filter(|file| {
            let aside = ["benches/", "verify/compile-tests/", "examples/", "loom-tests/", "xtask/"];
            let is_test = file.path.contains("/tests/") || file.path.ends_with("/tests.rs");
            !is_test && !aside.iter().any(|folder| file.path.starts_with(folder))
        })
    }

    /// Files with this ending.
    pub(super) fn ending(&self, ending: &str) -> impl Iterator<Item = &File> {
        self.files.iter().filter(move |file| file.path.ends_with(ending))
    }

    /// The text of one file.
    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path).map(|file| &*file.text)
    }

    /// Whether there is such a file that was read, or a folder with one.
    pub(super) fn has(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        self.files.iter().any(|file| file.path == path || file.path.starts_with(&folder))
    }
}

impl File {
    /// Lines with their numbers, up to the unit tests at the end; comments are left out.
    pub(super) fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().take_while(|line| line.trim() != "#[cfg(test)]");
        lines.enumerate().map(|(i, line)| (i + 1, line)).filter(|(_, line)| !is_comment(line))
    }

    /// A breach at a line.
    pub(super) fn at(&self, line: usize, what: &str) -> String {
        format!("{}:{line}: {what}", self.path)
    }
}

/// Whether the line is a comment and nothing else.
pub(super) fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}
