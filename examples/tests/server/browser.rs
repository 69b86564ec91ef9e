//! The pages, as a browser without a window shows them: what they offer is done, and what they show of it is right.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::client::{GUARD, PATIENT, Server, Until, eventually_within, floats};

/// Chromium's names.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

struct Browser {
    program: &'static str,
    folder: PathBuf,
}

impl Browser {
    /// `None`, loudly, where there is none; in CI that is a failure.
    fn find(test: &str) -> Option<Self> {
        let is_there = |name: &&str| Command::new(name).arg("--version").output().is_ok();
        let Some(program) = NAMES.into_iter().find(|name| is_there(name)) else {
            let is_required =
                ["CI", "WINDLASS_REQUIRE_DRIVERS"].iter().any(|name| std::env::var_os(name).is_some());
            assert!(!is_required, "Chromium is required here: `cargo xtask setup` installs it");
            println!("SKIPPED: no Chromium, so {test} tested nothing; `cargo xtask setup` installs it");
            return None;
        };
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        fs::create_dir_all(&folder).expect("a folder");
        Some(Browser { program, folder })
    }

    /// What becomes of a page once its scripts have run. Whatever it has to complain of on its console is a failure. A picture of it stays in
    /// the folder, for who wants to look.
    ///
    /// The page's clock runs ahead while it fetches nothing, so that the budget is no time that passes.
    fn open(&self, address: &str) -> String {
        let [said, complained, picture] =
            ["page.html", "browser.log", "page.png"].map(|name| self.folder.join(name));
        let _ = fs::remove_file(&picture);
        let child = Command::new(self.program)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--enable-logging=stderr", "--virtual-time-budget=30000", "--hide-scrollbars"])
            .args(["--window-size=1000,1500", "--dump-dom"])
            .arg(format!("--screenshot={}", picture.display()))
            .arg(format!("--user-data-dir={}", self.folder.join("profile").display()))
            .arg(address)
            .stdin(Stdio::null())
            .stdout(File::create(&said).expect("a file"))
            .stderr(File::create(&complained).expect("a file"))
            .spawn()
            .expect("it is there");
        Running(child).ends();
        let complained = fs::read(&complained).expect("written above");
        let complained = String::from_utf8_lossy(&complained).into_owned();
        let console: Vec<_> = complained.lines().filter(|line| line.contains("CONSOLE")).collect();
        assert!(console.is_empty(), "{address}: {console:#?}");
        assert!(picture.exists(), "no picture of {address}: {complained}");
        println!("{address} is seen in {}", picture.display());
        String::from_utf8_lossy(&fs::read(said).expect("written above")).into_owned()
    }

    /// A page of a server of its own once an element has a line. Pictures are decoded while nothing is fetched, so on a busy machine the page's
    /// clock may have run to its end before they are, or before a job is done: then it is looked at again. A page that never gets there is
    /// as it is.
    fn open_until_done(&self, part: &str, id: &str, line: &str) -> (Server, String) {
        let open = || {
            let server = Server::with(&[PATIENT]);
            let page = self.open(&format!("http://{}/{part}", server.address));
            (server, page)
        };
        let mut opened = open();
        for _ in 0..4 {
            if !text(&opened.1, id).lines().any(|found| found == line) {
                opened = open();
            }
        }
        opened
    }
}

/// A browser that does not outlive its test.
struct Running(Child);

impl Running {
    /// It takes longer than servers do to start, and that beside other tests.
    fn ends(mut self) {
        let has_ended = || self.0.try_wait().expect("it is a child").is_some();
        eventually_within(3 * GUARD, "the browser is done", has_ended);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The text of an element without others in it.
fn text(document: &str, id: &str) -> String {
    let (_, rest) =
        document.split_once(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("no {id}: {document}"));
    let (_, rest) = rest.split_once('>').expect("a tag has an end");
    let text = rest.split('<').next().unwrap_or_default();
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

/// What the server counts last while the page does all that it offers.
const DONE: &str = "server_jobs_ended_total{how=\"done\"} 1";

/// The page does all that it offers: requests that share launches, a picture as pixels and as a file, a job that is hung up on and one that
/// is not. What it says of each is right. Seen to fail where the kernel weighed red wrongly.
#[test]
fn the_page_does_what_it_offers() {
    let Some(browser) = Browser::find("the_page_does_what_it_offers") else { return };
    let (server, page) = browser.open_until_done("#try", "metrics", DONE);
    assert_eq!(text(&page, "devices"), server.text("/devices"));
    let answers = text(&page, "answers");
    assert!(answers.starts_with("200 right answers in "), "{answers}");
    let numbers: Vec<u32> = answers.split(' ').filter_map(|word| word.parse().ok()).collect();
    assert!(matches!(numbers[..], [200, _, 200, 1..=200]), "{answers}");
    assert_eq!(text(&page, "grayed"), "4096 of 4096 pixels are right");
    assert_eq!(text(&page, "read"), "image/png, 4096 of 4096 pixels are right");
    let metrics = text(&page, "metrics");
    for line in [
        "server_jobs_ended_total{how=\"cancelled\"} 1",
        DONE,
        "server_jobs_running 0",
        "windlass_batch_items_total{batch=\"softened\"} 200",
    ] {
        assert!(metrics.lines().any(|found| found == line), "no {line} in {metrics}");
    }
    // The same job, without a browser.
    let job = server.ask("POST", "/jobs?steps=5000", &[]).why();
    let (_, result) = job.split_once("event: result\ndata: ").expect("it has a result");
    let result = result.lines().next().expect("a line");
    assert_eq!(text(&page, "job"), format!("result: {result}"));
    assert!(page.contains("<progress id=\"progress\" max=\"1\" value=\"1\">"), "{page}");
}

/// The timeline of a second in which requests were answered: what they were is in the page's table, and of a moment in which nothing was
/// done the page says so. Seen to fail where the trace had room for nothing.
#[test]
fn the_timeline_shows_what_was_done() {
    let Some(browser) = Browser::find("the_timeline_shows_what_was_done") else { return };
    let server = Server::with(&[PATIENT]);
    let nothing = browser.open(&format!("http://{}/trace/0", server.address));
    assert_eq!(text(&nothing, "sum"), "Nothing was recorded.");
    let is_over = AtomicBool::new(false);
    let page = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                assert_eq!(server.ask("POST", "/soften", &floats(&[1.0])).body, floats(&[0.5]));
                assert_eq!(server.ask("POST", "/grayscale", &[9; 1 << 16]).code, 200);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let _until = Until(&is_over);
        browser.open(&format!("http://{}/trace/1", server.address))
    });
    let sum = text(&page, "sum");
    assert!(sum.contains(" entries in ") && !sum.contains("failed"), "{sum}");
    for row in ["softened", "grayscale", "host accessor"] {
        assert!(page.contains(&format!("<tr><td>{row}</td><td class=\"n\">")), "no row of {row}: {sum}");
    }
}
