//! Headless Chromium, controlled with the DevTools protocol over a pipe: <https://chromedevtools.github.io/devtools-protocol/>.

use super::{Folder, TIMEOUT};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

/// The names of the program, by system.
const PROGRAMS: [&str; 3] = ["chromium", "google-chrome", "chromium-browser"];
/// Without a display, without a sandbox, which needs rights that containers lack, and without calls of its own to other hosts.
const ARGUMENTS: [&str; 10] = [
    "--remote-debugging-pipe",
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
];
/// Chromium reads messages from file descriptor 3 and writes them to 4; the standard library can only pass 0 to 2 to a program.
const START: &str = r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#;

/// A page in a browser, which is killed when this is dropped.
pub(crate) struct Browser {
    child: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    /// The session of the page, which is part of every message to it.
    session: String,
    /// The number of the last message.
    last: u64,
    /// The profile, which is removed when the browser has ended.
    _profile: Folder,
}

impl Browser {
    /// `None` if Chromium is not installed.
    pub(crate) fn start() -> Option<Self> {
        let Some(program) = PROGRAMS.into_iter().find(|program| nodeless_tests::runs(program, &["--version"])) else {
            nodeless_tests::skipped("chromium", "`chromium --version` fails: install Chromium to test the page in it");
            return None;
        };
        let profile = Folder::new();
        let mut command = Command::new("sh");
        command.args(["-c", START, program]).args(ARGUMENTS);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(output).split(0).map_while(Result::ok) {
                // The receiver is gone at the end of the test.
                let _ = sender.send(serde_json::from_slice(&message).unwrap_or_default());
            }
        });
        let mut browser = Self { child, input, messages, session: String::new(), last: 0, _profile: profile };
        let target = browser.call("Target.createTarget", &json!({ "url": "about:blank" }))["targetId"].take();
        let attached = browser.call("Target.attachToTarget", &json!({ "targetId": target, "flatten": true }));
        browser.session = attached["sessionId"].as_str().unwrap().to_owned();
        Some(browser)
    }

    /// Calls a method and returns its result.
    pub(crate) fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": parameters });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.input.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let received = self.messages.recv_timeout(TIMEOUT);
            let mut answer = received.unwrap_or_else(|error| panic!("Chromium does not answer to {method}: {error}"));
            if answer["id"] == self.last {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].take();
            }
        }
    }

    /// Opens the page at a URL.
    pub(crate) fn open(&mut self, url: &str) {
        let opened = self.call("Page.navigate", &json!({ "url": url }));
        assert!(opened["errorText"].is_null(), "{url}: {opened}");
    }

    /// Runs the body of a function in the page, and returns what it returns.
    pub(crate) fn script(&mut self, body: &str) -> Value {
        let expression = format!("(() => {{ {body}\n }})()");
        let mut ended = self.call("Runtime.evaluate", &json!({ "expression": expression, "returnByValue": true }));
        assert!(ended["exceptionDetails"].is_null(), "{body}: {ended}");
        ended["result"]["value"].take()
    }

    /// The text that the body of a function returns.
    pub(crate) fn text(&mut self, body: &str) -> String {
        self.script(body).as_str().unwrap_or_default().to_owned()
    }

    /// Presses keys, one after the other: characters, or names such as `Tab`.
    pub(crate) fn keys(&mut self, keys: &[&str]) {
        for key in keys {
            // The codes of keys that are no characters: <https://www.w3.org/TR/uievents/#fixed-virtual-key-codes>.
            let (code, text) = match *key {
                "Tab" => (9, ""),
                "Enter" => (13, "\r"),
                "Escape" => (27, ""),
                "ArrowUp" => (38, ""),
                "ArrowDown" => (40, ""),
                character => (0, character),
            };
            for kind in ["keyDown", "keyUp"] {
                let text = if kind == "keyDown" { text } else { "" };
                let event = json!({ "type": kind, "key": key, "windowsVirtualKeyCode": code, "text": text });
                self.call("Input.dispatchKeyEvent", &event);
            }
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
