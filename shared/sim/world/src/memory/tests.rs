use super::{Chain, Function, MemoryQueue, Message};
use crate::world::WorldClock;
use jiff::Timestamp;
use nodeless_ports::Queue;
use nodeless_ports::queue::{ShardMessage, WakeSource};
use std::sync::Arc;
use std::time::Duration;

#[tokio::test]
async fn messages_come_when_they_are_due() {
    let clock = WorldClock::new(Timestamp::UNIX_EPOCH);
    let queue = MemoryQueue::new(Arc::new(clock.clone()));
    let message = |shard| ShardMessage { shard, number: 1 };
    queue.wake_shard(message(7), Duration::from_secs(9)).await.unwrap();
    queue.wake_shard(message(0), Duration::ZERO).await.unwrap();
    queue.wake_shard(message(0), Duration::ZERO).await.unwrap();
    assert_eq!((queue.waiting(), queue.take_shards()), (2, vec![message(0)]));
    assert_eq!(queue.next_due(), Some(Timestamp::from_second(9).unwrap()));
    clock.advance_to(Timestamp::from_second(9).unwrap());
    assert_eq!(queue.take_shards(), [message(7)]);
    queue.wake_planner(WakeSource::Webhook).await.unwrap();
    queue.wake_planner(WakeSource::Lifecycle).await.unwrap();
    assert_eq!(queue.next_due(), Some(clock.time()));
    assert_eq!((queue.take_plan(), queue.take_plan()), (Some(WakeSource::Lifecycle), None));
}

#[tokio::test]
async fn wake_ups_of_one_interval_and_source_are_one_and_delayed_ones_are_each_their_own() {
    let clock = WorldClock::new(Timestamp::UNIX_EPOCH);
    let queue = MemoryQueue::new(Arc::new(clock.clone()));
    queue.wake_planner(WakeSource::Webhook).await.unwrap();
    assert!(queue.take_plan().is_some());
    queue.wake_planner(WakeSource::Webhook).await.unwrap();
    assert_eq!(queue.take_plan(), None, "the same id again");
    queue.wake_planner_after(Duration::from_secs(30)).await.unwrap();
    queue.wake_planner_after(Duration::from_secs(40)).await.unwrap();
    for (second, due) in [(1, false), (30, true), (31, false), (40, true), (41, false)] {
        clock.advance_to(Timestamp::from_second(second).unwrap());
        assert_eq!(queue.take_plan().is_some(), due, "{second}");
    }
    for (milliseconds, sent) in [(41_000, true), (41_499, false), (41_500, true)] {
        clock.advance_to(Timestamp::from_millisecond(milliseconds).unwrap());
        queue.wake_planner(WakeSource::Webhook).await.unwrap();
        assert_eq!(queue.take_plan().is_some(), sent, "{milliseconds} ms");
    }
}

#[tokio::test]
async fn a_message_belongs_to_the_chain_of_its_sender() {
    let clock = WorldClock::new(Timestamp::UNIX_EPOCH);
    let queue = MemoryQueue::new(Arc::new(clock.clone()));
    let message = ShardMessage { shard: 1, number: 1 };
    let mut chain = Chain::default();
    let mut invocations = 0;
    while let Some(invoked) = chain.invoking(Function::Lifecycle) {
        invocations += 1;
        queue.send_in(&invoked);
        queue.wake_shard(message, Duration::ZERO).await.unwrap();
        queue.send_in(&Chain::default());
        // Another message of the same content, from a schedule, is received with it.
        queue.wake_shard(message, Duration::ZERO).await.unwrap();
        assert_eq!(queue.take_shards(), [message]);
        chain = queue.take_chain(&Message::Shard(message));
    }
    assert_eq!(invocations, 16);
    assert!(chain.invoking(Function::Planner).is_some(), "each function counts for itself");
    queue.wake_planner(WakeSource::Webhook).await.unwrap();
    assert!(queue.take_plan().is_some());
    assert_eq!(queue.take_chain(&Message::Plan), Chain::default());
}
