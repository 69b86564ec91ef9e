//! Which public types may go to other threads, be shared between them, and be moved while they are polled.

use windlass::access::*;
use windlass::*;

/// Says whether a type implements a trait, at compile time: the inherent constant is found first where its bound holds.
macro_rules! implements {
    ($type:ty: $($bound:tt)+) => {{
        struct Test<T: ?Sized>(std::marker::PhantomData<T>);
        #[allow(dead_code, reason = "found only where the bound does not hold")]
        trait Otherwise {
            const YES: bool = false;
        }
        impl<T: ?Sized> Otherwise for Test<T> {}
        #[allow(dead_code, reason = "found only where the bound holds")]
        impl<T: ?Sized + $($bound)+> Test<T> {
            const YES: bool = true;
        }
        <Test<$type>>::YES
    }};
}

macro_rules! table {
    ($($type:ty: $send:ident $sync:ident $unpin:ident;)*) => {
        const TABLE: &[(&str, [bool; 3], [bool; 3])] = &[$((
            stringify!($type),
            [implements!($type: Send), implements!($type: Sync), implements!($type: Unpin)],
            [table!(@ $send), table!(@ $sync), table!(@ $unpin)],
        )),*];
    };
    (@ send) => { true };
    (@ sync) => { true };
    (@ unpin) => { true };
    (@ no) => { false };
}

table! {
    Runtime: send sync unpin;
    RuntimeBuilder: send sync unpin;
    HostAllocator: send sync unpin;
    Stats: send sync unpin;
    Remaining: send sync unpin;
    Recording: send sync unpin;
    Stall: send sync unpin;
    Holder: send sync unpin;
    Waiter: send sync unpin;
    CompletionStrategy: send sync unpin;
    DeadlockPolicy: send sync unpin;
    Platform: send sync unpin;
    Device: send sync unpin;
    Selector: send sync unpin;
    Context: send sync unpin;
    Queue: send sync unpin;
    QueueBuilder: send sync unpin;
    Ready<'static>: send sync unpin;
    Slot<'static>: send sync unpin;
    ReadyOwned: send sync unpin;
    OwnedSlot: send sync unpin;
    Drained: send sync unpin;
    Buffer<u32>: send sync unpin;
    Buffer<f32, 3>: send sync unpin;
    Image<texel::R32Float, 2>: send sync unpin;
    texel::TexelFormat: send sync unpin;
    texel::Sampler: send sync unpin;
    texel::Filter: send sync unpin;
    texel::Addressing: send sync unpin;
    MemoryKind: send sync unpin;
    KnownBackend: send sync unpin;
    Residency: send sync unpin;
    // What is lent is given back by the thread that lent it.
    Scope<'static>: no no unpin;
    HostReadFuture<u32>: send sync unpin;
    HostWriteFuture<u32>: send sync unpin;
    HostRead<u32>: send sync unpin;
    HostWrite<u32>: send sync unpin;
    Event: send sync unpin;
    AllEvents: send sync unpin;
    CancelOnDrop: send sync unpin;
    Status: send sync unpin;
    Profile: send sync unpin;
    TooLarge: send sync unpin;
    PciAddress: send sync unpin;
    Priority: send sync unpin;
    CancelOutcome: send sync unpin;
    OnCancel: send sync unpin;
    Error: send sync unpin;
    AsyncError: send sync unpin;
    // A group is filled by one thread.
    CommandGroup<'static>: send no unpin;
    batch::Batch<u32, u32>: send sync unpin;
    batch::BatchBuilder<u32, u32>: send sync unpin;
    batch::BatchStats: send sync unpin;
    batch::Terms<'static, u32, u32>: send sync unpin;
    batch::Call<u32, u32>: send sync unpin;
    batch::Answer<u32>: send sync unpin;
    batch::Gathered<u32, u32>: send sync unpin;
    batch::Payload<u32>: send sync unpin;
    Bundle: send sync unpin;
    Explanation: send sync unpin;
    Form: send sync unpin;
    KernelReport: send sync unpin;
    LaunchShape: send sync unpin;
    Way: send sync unpin;
    Fault: send sync unpin;
    KernelCall<'static>: send sync unpin;
    // Accessors go into host tasks, and from there to whatever thread polls them.
    Read<'static, u32>: send sync unpin;
    Write<'static, u32>: send sync unpin;
    ReadWrite<'static, u32>: send sync unpin;
    Overwrite<'static, u32>: send sync unpin;
    ReadWriteUninit<'static, u32>: send sync unpin;
    Atomic<'static, u32>: send sync unpin;
    Chunk: send sync unpin;
    Host<'static>: send sync unpin;
    HostView<'static, u32>: send sync unpin;
    HostViewMut<'static, u32>: send sync unpin;
    image::Kernel: send sync unpin;
    image::KernelImage: send sync unpin;
    image::Parameter: send sync unpin;
    image::Width: send sync unpin;
    image::Block<'static>: send sync unpin;
    image::Span<'static>: send sync unpin;
    image::View<'static, u32>: send sync unpin;
    image::ViewMut<'static, u32>: send sync unpin;
    image::AtomicView<'static, u32>: send sync unpin;
    image::ImageFormat: send sync unpin;
    image::Need: send sync unpin;
    image::Override: send sync unpin;
    image::Range: send sync unpin;
    image::Slot: send sync unpin;
    image::SlotAccess: send sync unpin;
    f16: send sync unpin;
    Item<1>: send sync unpin;
    Vec2<f32>: send sync unpin;
    Vec3<f32>: send sync unpin;
    Vec4<f32>: send sync unpin;
    Ptr<f32>: send sync unpin;
    NdRange<3>: send sync unpin;
    Aspect: send sync unpin;
    AtomicOrders: send sync unpin;
    AtomicScopes: send sync unpin;
    BackendError: send sync unpin;
    BackendId: send sync unpin;
    DeviceInfo: send sync unpin;
    Details: send sync unpin;
    Cache: send sync unpin;
    VectorWidths: send sync unpin;
    Floats: send sync unpin;
    DeviceKind: send sync unpin;
    Unavailable: send sync unpin;
}

#[test]
fn every_public_type_is_send_sync_and_unpin_as_the_table_says() {
    for (name, is, should) in TABLE {
        assert_eq!(is, should, "{name}: [Send, Sync, Unpin]");
    }
}

#[test]
fn the_table_has_every_type_that_the_crate_exports() {
    let lib = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/src/lib.rs")).unwrap();
    let exports =
        lib.lines().skip_while(|l| !l.starts_with("pub use")).take_while(|l| !l.contains("prelude"));
    let text: String = exports.filter(|l| !l.trim_start().starts_with("//")).collect();
    // Traits, aliases and what only has associated functions.
    let others = [
        "Accessor",
        "AnyEvent",
        "BoxError",
        "ChunkArg",
        "ChunkArgs",
        "DeviceCopy",
        "Events",
        "GuardIndex",
        "HostArg",
        "HostArgs",
        "LaunchRange",
        "Pictured",
        "Region",
        "Result",
        "Shape",
        "WriteAccessor",
    ];
    let names =
        text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| w.starts_with(char::is_uppercase));
    let mut seen = 0;
    for name in names {
        let known =
            TABLE.iter().any(|(of, ..)| of.split(['<', ' ']).next() == Some(name)) || others.contains(&name);
        assert!(known, "`{name}` is exported, and is not in the table");
        seen += 1;
    }
    assert!(seen > 40, "the crate's exports were not found: {seen}");
}

#[test]
fn futures_of_the_crate_may_be_spawned() {
    fn spawnable<F: Future + Send + 'static>(_: F) {}
    let buffer = Buffer::<u32>::new(8);
    spawnable(buffer.host_read());
    spawnable(buffer.host_write());
    spawnable(buffer.clone().into_vec());
    spawnable(async {
        let queue = Queue::builder().build().await?;
        let buffer = Buffer::<u32>::new(8);
        let slot = queue.ready().await;
        let event = slot.submit(|cg| cg.fill(&cg.overwrite(&buffer), 1))?;
        let guard = buffer.host_read().await?;
        event.await?;
        drop(guard);
        queue.drained().await;
        queue.runtime().shutdown(std::time::Duration::ZERO).await;
        Ok::<_, Error>(())
    });
}
