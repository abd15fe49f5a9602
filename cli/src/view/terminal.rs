//! The terminal: it is restored however the view ends.

use crate::error::CliError;
use nodeless_view::Key;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{self, EnterAlternateScreen, LeaveAlternateScreen};
use std::io::{BufWriter, IsTerminal as _, Stdout, stdout};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// How often the thread that reads keys checks whether the view has ended.
const POLL: Duration = Duration::from_millis(200);

/// How many bytes are written to the terminal at once, so that a drawing does not arrive in parts.
const WRITTEN_AT_ONCE: usize = 1 << 16;

/// What comes from the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    Key(Key),
    /// The size of the terminal changed.
    Resized,
}

/// The terminal in raw mode with the alternate screen. Dropping it restores the terminal; so does a panic.
#[derive(Debug)]
pub(crate) struct Terminal {
    pub(crate) drawn: ratatui::Terminal<CrosstermBackend<BufWriter<Stdout>>>,
}

impl Terminal {
    /// Takes the terminal.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn take() -> Result<Self, CliError> {
        restore_on_panic();
        let taken = || {
            terminal::enable_raw_mode()?;
            execute!(stdout(), EnterAlternateScreen)?;
            ratatui::Terminal::new(CrosstermBackend::new(BufWriter::with_capacity(WRITTEN_AT_ONCE, stdout())))
        };
        taken().map(|drawn| Self { drawn }).map_err(|error| {
            restore();
            CliError::Terminal(error)
        })
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore();
    }
}

/// Leaves the alternate screen and raw mode. Where this fails, the terminal is gone.
fn restore() {
    let _gone = execute!(stdout(), LeaveAlternateScreen, Show);
    let _gone = terminal::disable_raw_mode();
}

/// Restores the terminal before the message of a panic is printed. A panic of another thread does not end the view, and its
/// message would be drawn over it; who waits for the thread reports it.
fn restore_on_panic() {
    let main = std::thread::current().id();
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().id() == main {
            restore();
            before(panic);
        }
    }));
}

/// Whether standard input and output are a terminal of at least this size.
///
/// # Errors
/// When they are not.
pub(crate) fn check(columns: u16, rows: u16) -> Result<(), CliError> {
    let dumb = std::env::var_os("TERM").is_some_and(|kind| kind == "dumb");
    if dumb || !stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(CliError::NoTerminal);
    }
    let (width, height) = terminal::size().map_err(CliError::Terminal)?;
    if width < columns || height < rows {
        return Err(CliError::SmallTerminal { width, height, columns, rows });
    }
    Ok(())
}

/// The number of columns of the terminal, if there is one.
pub(crate) fn width() -> Option<usize> {
    terminal::size().ok().map(|(width, _)| usize::from(width))
}

/// The keys that are pressed, read by a thread that ends when the receiver is dropped.
pub(crate) fn input() -> Result<UnboundedReceiver<Input>, CliError> {
    let (sender, receiver) = unbounded_channel();
    let thread = std::thread::Builder::new().name("keys".to_owned());
    thread.spawn(move || read(&sender)).map_err(CliError::Thread)?;
    Ok(receiver)
}

fn read(sender: &UnboundedSender<Input>) {
    while !sender.is_closed() {
        match event::poll(POLL) {
            Ok(false) => continue,
            Ok(true) => {}
            // The terminal is gone: the receiver sees the end of the channel.
            Err(_) => return,
        }
        let input = match event::read() {
            Ok(Event::Key(pressed)) => key(&pressed).map(Input::Key),
            Ok(Event::Resize(..)) => Some(Input::Resized),
            Ok(_) => None,
            Err(_) => return,
        };
        if input.is_some_and(|input| sender.send(input).is_err()) {
            return;
        }
    }
}

fn key(pressed: &KeyEvent) -> Option<Key> {
    if pressed.kind == KeyEventKind::Release {
        return None;
    }
    if pressed.modifiers.contains(KeyModifiers::CONTROL) {
        return matches!(pressed.code, KeyCode::Char('c' | 'C')).then_some(Key::Interrupt);
    }
    Some(match pressed.code {
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Char(letter) => Key::Char(letter),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ctrl_c_is_an_interrupt_and_other_controls_are_nothing() {
        let with = |letter, modifiers| key(&KeyEvent::new(KeyCode::Char(letter), modifiers));
        assert_eq!(with('c', KeyModifiers::CONTROL), Some(Key::Interrupt));
        assert_eq!(with('q', KeyModifiers::CONTROL), None);
        assert_eq!(with('c', KeyModifiers::NONE), Some(Key::Char('c')));
        assert_eq!(with('G', KeyModifiers::SHIFT), Some(Key::Char('G')));
        let release = KeyEvent::new_with_kind(KeyCode::Up, KeyModifiers::NONE, KeyEventKind::Release);
        assert_eq!(key(&release), None);
    }
}
