//! Work of several streams on the same memory: what is a race, and what orders it.

mod common;

use std::sync::Arc;

use common::{Bench, function, one_thread, submit};
use sim_device::{Config, Context, Copy, Event, Fill, HostMemory, Mode, Operation, Options, Place, Stream, StreamKind};

/// What every race between streams is told with.
const RACE: &str = "race between streams: ";

/// Two streams that are not blocking, one that is, the legacy default stream, and four words that were written.
struct Streams {
    bench: Bench,
    context: Arc<Context>,
    one: Arc<Stream>,
    other: Arc<Stream>,
    blocking: Arc<Stream>,
    legacy: Arc<Stream>,
    memory: u64,
}

impl Streams {
    fn new() -> Self {
        Self::with(Config::default())
    }

    fn with(config: Config) -> Self {
        let bench = Bench::with(config);
        let context = bench.context(0);
        let memory = context.allocate("words", 16).unwrap();
        context.write(memory, &[0; 16]).unwrap();
        let new = |kind, is_blocking| Stream::new(&context, kind, is_blocking, 0).unwrap();
        let [one, other] = [(); 2].map(|()| new(StreamKind::Created, false));
        let (blocking, legacy) = (new(StreamKind::Created, true), new(StreamKind::Legacy, true));
        Self { one, other, blocking, legacy, memory, context, bench }
    }

    /// How many races were told.
    fn races(&self) -> usize {
        self.bench.messages().matches(RACE).count()
    }

    fn event(&self) -> Arc<Event> {
        Event::new(&self.context, false).unwrap()
    }

    fn store(&self, stream: &Stream) {
        submit(stream, "store", &[self.memory]).unwrap();
    }

    fn load(&self, stream: &Stream) {
        submit(stream, "load", &[self.memory, self.memory + 8]).unwrap();
    }
}

/// Memory of the program.
struct Words {
    is_page_locked: bool,
}

impl HostMemory for Words {
    fn address(&self) -> u64 {
        0x5555_0000_0000
    }

    fn is_page_locked(&self) -> bool {
        self.is_page_locked
    }

    fn read(&self, _offset: u64, data: &mut [u8]) {
        data.fill(1);
    }

    fn write(&self, _offset: u64, _data: &[u8]) {}
}

fn copy_to_host(from: u64, is_page_locked: bool) -> Operation {
    let destination = Place::Host(Arc::new(Words { is_page_locked }));
    Operation::Copy(Copy { destination, source: Place::Device(from), bytes: 4 })
}

#[test]
fn two_launches_race_where_nothing_orders_them() {
    let streams = Streams::new();
    streams.store(&streams.one);
    streams.load(&streams.other);
    let messages = streams.bench.messages();
    let (one, other) = (streams.one.id(), streams.other.id());
    for words in [
        "byte 0 of allocation 1 of 16 bytes, by words: the launch of store with a grid of (1, 1, 1)",
        &format!(" on stream {one}, which writes it in line 11 of the PTX, and the launch of load"),
        &format!(" on stream {other}, which reads it in line 20 of the PTX: nothing orders the two"),
    ] {
        assert!(messages.contains(words), "no {words:?} in\n{messages}");
    }
    streams.store(&streams.one);
    streams.load(&streams.other);
    assert_eq!(streams.races(), 2, "a pair is told once, each way round: {}", streams.bench.messages());
}

#[test]
fn what_does_not_meet_is_no_race() {
    let streams = Streams::new();
    submit(&streams.one, "store", &[streams.memory]).unwrap();
    submit(&streams.other, "store", &[streams.memory + 4]).unwrap();
    assert_eq!(streams.races(), 0, "other bytes");
    let read = |stream: &Stream, to: u64| submit(stream, "load", &[streams.memory + 12, streams.memory + to]).unwrap();
    read(&streams.one, 0);
    read(&streams.other, 8);
    assert_eq!(streams.races(), 0, "two reads");
    let atomics = "
        .version 8.0\n.target sm_80\n.address_size 64\n.visible .entry add(.param .u64 to) {\n.reg .b64 %a;\nld.param.u64 %a, [to];
        red.global.gpu.add.u32 [%a], 1;\nret;\n}";
    let add = streams.context.load(atomics, None).unwrap().function("add").unwrap();
    for stream in [&streams.blocking, &streams.one] {
        stream.submit(Operation::Launch(one_thread(&add, &[streams.memory + 12]))).unwrap();
    }
    assert_eq!(
        streams.races(),
        3,
        "the first races with both reads, the second with one of them, and the two not with each other"
    );
}

#[test]
fn copies_and_fills_race_too() {
    let streams = Streams::new();
    let fill = Fill { address: streams.memory + 8, value: vec![0; 4], width: 1, height: 1, pitch: 0 };
    streams.load(&streams.one);
    streams.other.submit(Operation::Fill(fill)).unwrap();
    assert!(streams.bench.messages().contains("and a fill of 4 bytes on stream"), "{}", streams.bench.messages());
    streams.blocking.submit(copy_to_host(streams.memory + 8, true)).unwrap();
    assert_eq!(streams.races(), 3, "the copy reads what both wrote");
    let source = Place::Host(Arc::new(Words { is_page_locked: true }));
    let to_device = Copy { destination: Place::Device(streams.memory), source, bytes: 4 };
    streams.blocking.submit(Operation::Copy(to_device)).unwrap();
    assert!(streams.bench.messages().contains("and a copy of 4 bytes on stream"), "{}", streams.bench.messages());
}

#[test]
fn events_order() {
    let streams = Streams::new();
    let event = streams.event();
    streams.store(&streams.one);
    streams.one.record(&event).unwrap();
    streams.other.wait(&event).unwrap();
    streams.load(&streams.other);
    assert_eq!(streams.races(), 0, "{}", streams.bench.messages());
    // What comes behind the event is not waited for, and the third stream has waited for nothing.
    streams.store(&streams.one);
    assert_eq!(streams.races(), 1);
    let streams = Streams::new();
    let (first, second) = (streams.event(), streams.event());
    streams.store(&streams.one);
    streams.one.record(&first).unwrap();
    streams.other.wait(&first).unwrap();
    streams.other.record(&second).unwrap();
    streams.blocking.wait(&second).unwrap();
    streams.load(&streams.blocking);
    assert_eq!(streams.races(), 0, "by way of another stream");
    streams.load(&streams.other);
    assert_eq!(streams.races(), 1, "both write what they loaded");
}

#[test]
fn an_event_that_was_recorded_too_early_orders_nothing() {
    let streams = Streams::new();
    let event = streams.event();
    streams.one.record(&event).unwrap();
    streams.store(&streams.one);
    streams.other.wait(&event).unwrap();
    streams.load(&streams.other);
    assert_eq!(streams.races(), 1);
}

#[test]
fn calls_that_wait_order() {
    let waits: [fn(&Streams); 5] = [
        |streams| streams.one.synchronize().unwrap(),
        |streams| streams.context.synchronize().unwrap(),
        |streams| {
            let event = streams.event();
            streams.one.record(&event).unwrap();
            event.synchronize().unwrap();
        },
        |streams| {
            let other = streams.context.allocate("other", 4).unwrap();
            streams.context.free(other, sim_device::Call::Synchronous).unwrap();
        },
        // A copy to memory that is not page-locked is done when its call returns.
        |streams| streams.one.submit(copy_to_host(streams.memory, false)).unwrap(),
    ];
    for (number, wait) in waits.into_iter().enumerate() {
        let streams = Streams::new();
        streams.store(&streams.one);
        wait(&streams);
        streams.load(&streams.other);
        assert_eq!(streams.races(), 0, "wait {number}: {}", streams.bench.messages());
    }
    let streams = Streams::new();
    streams.store(&streams.one);
    streams.other.synchronize().unwrap();
    streams.load(&streams.other);
    assert_eq!(streams.races(), 1, "another stream was waited for");
}

#[test]
fn the_legacy_default_stream_and_blocking_streams_wait_for_each_other() {
    let streams = Streams::new();
    streams.store(&streams.blocking);
    streams.load(&streams.legacy);
    streams.store(&streams.blocking);
    assert_eq!(streams.races(), 0, "{}", streams.bench.messages());
    let per_thread = Stream::new(&streams.context, StreamKind::PerThread, true, 0).unwrap();
    streams.load(&streams.legacy);
    streams.load(&per_thread);
    assert_eq!(streams.races(), 0, "{}", streams.bench.messages());
    streams.load(&streams.one);
    assert_eq!(
        streams.races(),
        3,
        "a stream that is not blocking waits for none of the three: {}",
        streams.bench.messages()
    );
}

#[test]
fn a_call_on_the_legacy_default_stream_parts_blocking_streams() {
    let streams = Streams::new();
    let second = Stream::new(&streams.context, StreamKind::Created, true, 0).unwrap();
    streams.store(&streams.blocking);
    let elsewhere = streams.context.allocate("elsewhere", 4).unwrap();
    submit(&streams.legacy, "store", &[elsewhere]).unwrap();
    streams.load(&second);
    assert_eq!(streams.races(), 0, "{}", streams.bench.messages());
    streams.store(&streams.blocking);
    assert_eq!(streams.races(), 1, "without one in between they race: {}", streams.bench.messages());
}

#[test]
fn graphs_are_work_of_their_stream() {
    let streams = Streams::new();
    let store = Operation::Launch(one_thread(&function(&streams.context, "store"), &[streams.memory]));
    streams.one.begin_capture(Mode::Relaxed).unwrap();
    streams.one.submit(store).unwrap();
    let graph = streams.one.end_capture().unwrap().instantiate();
    streams.one.submit(Operation::Graph(graph.clone())).unwrap();
    streams.one.submit(Operation::Graph(graph)).unwrap();
    assert_eq!(streams.races(), 0);
    streams.load(&streams.other);
    assert_eq!(streams.races(), 1);
}

#[test]
fn nothing_is_looked_for_where_races_are_not() {
    let config = Config { options: Options { races: false, ..Options::default() }, ..Config::default() };
    let streams = Streams::with(config);
    streams.store(&streams.one);
    streams.load(&streams.other);
    assert_eq!(streams.races(), 0);
}
