//! The loop of the live view: changes of the cluster and keys in, drawings out.

use super::Viewed;
use super::draw::Scene;
use super::explain::explain;
use super::source::Source;
use super::terminal::{Input, Terminal, input};
use crate::error::CliError;
use crate::shutdown::Shutdown;
use nodeless_view::{Cluster, KeyAction, Page, Picture, Screen, Target};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::{MissedTickBehavior, interval};

/// The shortest time between two pictures.
const SHORTEST: Duration = Duration::from_millis(250);
/// Ages are redrawn this often.
const TICK: Duration = Duration::from_secs(1);
/// A picture is made at most so often that this share of the time is spent on it.
const SHARE: u32 = 10;

/// Shows the cluster until the user quits.
pub(super) async fn run(viewed: Viewed, mut source: Source, mut cluster: Cluster) -> Result<(), CliError> {
    let mut end = Shutdown::new()?;
    let viewed = Arc::new(viewed);
    let mut live = Live::new(viewed.clone(), &cluster)?;
    let mut keys = input()?;
    let (explainer, mut explained) = unbounded_channel();
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut changed = true;
    loop {
        if changed {
            live.draw(source.trouble().as_deref())?;
        }
        changed = tokio::select! {
            () = end.wait() => return Ok(()),
            pressed = keys.recv() => match pressed {
                Some(Input::Key(key)) => match live.screen.key(key) {
                    KeyAction::Quit => return Ok(()),
                    KeyAction::Open(target) => {
                        live.open(target, &explainer);
                        true
                    }
                    KeyAction::Redraw => true,
                    KeyAction::None => false,
                },
                Some(Input::Resized) => true,
                // The terminal is gone.
                None => return Ok(()),
            },
            Some((target, lines)) = explained.recv() => {
                live.explanations.insert(target, lines);
                true
            }
            () = source.changed(&mut cluster) => live.refresh(&cluster),
            _ = tick.tick() => live.refresh(&cluster),
        };
    }
}

/// What is on the screen.
struct Live {
    viewed: Arc<Viewed>,
    terminal: Terminal,
    screen: Screen,
    picture: Picture,
    made: Instant,
    pause: Duration,
    /// The explanations of the objects that were opened.
    explanations: HashMap<Target, Vec<String>>,
    colour: bool,
}

impl Live {
    fn new(viewed: Arc<Viewed>, cluster: &Cluster) -> Result<Self, CliError> {
        Ok(Self {
            picture: viewed.picture(cluster),
            screen: Screen::grouped_by(viewed.viewing.group_by),
            viewed,
            terminal: Terminal::take()?,
            made: Instant::now(),
            pause: SHORTEST,
            explanations: HashMap::new(),
            colour: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        })
    }

    fn draw(&mut self, trouble: Option<&str>) -> Result<(), CliError> {
        let explanation = match self.screen.page() {
            Page::Object(target) => self.explanations.get(target).map_or(&[][..], Vec::as_slice),
            Page::Table | Page::Group(_) | Page::Help => &[],
        };
        let scene =
            Scene { picture: &self.picture, title: &self.viewed.title, explanation, trouble, colour: self.colour };
        let screen = &mut self.screen;
        self.terminal.drawn.draw(|frame| scene.draw(frame, screen)).map(drop).map_err(CliError::Terminal)
    }

    /// Makes the picture again, unless the last one was made a moment ago: then the next tick does. Returns whether it did.
    fn refresh(&mut self, cluster: &Cluster) -> bool {
        if self.made.elapsed() < self.pause {
            return false;
        }
        let started = Instant::now();
        self.picture = self.viewed.picture(cluster);
        self.made = Instant::now();
        self.pause = SHORTEST.max(started.elapsed() * SHARE);
        true
    }

    /// Starts to explain an object.
    fn open(&mut self, target: Target, explainer: &UnboundedSender<(Target, Vec<String>)>) {
        self.explanations.insert(target.clone(), vec!["A plan is being made ...".to_owned()]);
        let (viewed, explainer) = (self.viewed.clone(), explainer.clone());
        tokio::spawn(async move {
            let lines = explain(&viewed, &target).await;
            // If the receiver is gone, the view has ended.
            let _ended = explainer.send((target, lines));
        });
    }
}
