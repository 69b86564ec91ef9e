//! A trace that is written as it happens.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Instant, SystemTime};

use windlass_sync::facade::{Mutex, lock};

use super::entry::Entry;
use super::perfetto::Rows;
use crate::shell::tracer::{Sink, Traced};

/// Writes each entry to a file when it has ended, so that whatever ends the program ends no more than the trace. What a full
/// disk refuses is lost, and nothing else.
#[derive(Debug)]
pub(crate) struct FileSink {
    began: Instant,
    writer: Mutex<Writer>,
}

#[derive(Debug)]
struct Writer {
    file: File,
    rows: Rows,
    line: String,
}

impl FileSink {
    /// The file that `WINDLASS_TRACE` asks for. A second runtime of the process gets one beside it. Processes that inherit the variable
    /// from one another are told apart by a `%p` in it, which becomes their number.
    pub(crate) fn of_environment() -> Option<Self> {
        let path = std::env::var_os("WINDLASS_TRACE").filter(|path| !path.is_empty())?;
        let path = PathBuf::from(path.to_string_lossy().replace("%p", &std::process::id().to_string()));
        match Self::beside(&path) {
            Ok(sink) => Some(sink),
            Err(error) => {
                // Who has set the variable looks at the error stream, and may have no subscriber.
                eprintln!("windlass: WINDLASS_TRACE={}: {error}: nothing is traced", path.display());
                None
            }
        }
    }

    fn beside(path: &Path) -> io::Result<Self> {
        static TAKEN: LazyLock<Mutex<usize>> = LazyLock::new(Mutex::default);
        let mut taken = lock(&TAKEN);
        *taken += 1;
        let file = match *taken {
            1 => File::create(path)?,
            n => {
                let extension = path.extension().map_or_else(|| "json".into(), |e| e.to_string_lossy());
                File::create(path.with_extension(format!("{n}.{extension}")))?
            }
        };
        Self::new(file)
    }

    fn new(mut file: File) -> io::Result<Self> {
        let began = Instant::now();
        let mut rows = Rows::default();
        let mut line = String::from("[");
        rows.began(SystemTime::now(), &mut line);
        file.write_all(line.as_bytes())?;
        let writer = Writer { file, rows, line };
        Ok(FileSink { began, writer: Mutex::new(writer) })
    }
}

impl Sink for FileSink {
    fn ended(&self, traced: &Traced) {
        let mut writer = lock(&self.writer);
        let Writer { file, rows, line } = &mut *writer;
        line.clear();
        rows.write(&Entry::new(traced, self.began), line);
        // One call a line: another process's look finds no half of one.
        let _ = file.write_all(line.as_bytes());
    }
}
