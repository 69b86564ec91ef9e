//! Deliberate faults, to see that the oracle finds them. Without the `mutants` feature none exists.

macro_rules! mutants {
    ($($(#[doc = $what:literal])* $name:ident)*) => {
        /// One deliberate fault in the engine.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(dead_code, unreachable_pub, reason = "without the feature a mutant is only a name")]
        pub enum Mutant {
            $($(#[doc = $what])* $name,)*
        }

        impl Mutant {
            /// All of them.
            #[cfg(feature = "mutants")]
            pub const ALL: &'static [Mutant] = &[$(Mutant::$name,)*];
        }
    };
}

/// The deliberate fault that is switched on, if any.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults(pub(super) Option<Mutant>);

impl Faults {
    /// Whether this one is. Constant `false` without the feature.
    #[inline(always)]
    pub(super) fn is(self, mutant: Mutant) -> bool {
        cfg!(feature = "mutants") && self.0 == Some(mutant)
    }

    /// Whether any is. Constant `false` without the feature.
    #[inline(always)]
    pub(super) fn any(self) -> bool {
        cfg!(feature = "mutants") && self.0.is_some()
    }
}

mutants! {
    /// A write does not wait for the readers of its replica.
    DropWriteAfterRead
    /// A write does not wait for the write before it.
    DropWriteAfterWrite
    /// A read does not wait for the write it reads.
    DropReadAfterWrite
    /// A write leaves the other replicas valid.
    KeepOthersValid
    /// A no-init write fetches what was there.
    FetchForNoInit
    /// A keeping write fetches nothing.
    NoFetchForKeep
    /// A transfer leaves its target stale, so that the next reader fetches again.
    ForgetTransfer
    /// A transfer makes its target valid when it has ended, and not when it is planned.
    ValidityAtCompletion
    /// A transfer does not wait for users of the memory it overwrites.
    TransferIgnoresTargetUsers
    /// A transfer does not count as a reader of its source.
    TransferDoesNotRead
    /// Never-written data is fetched.
    FetchNeverWritten
    /// Two stale boxes that touch are fetched one by one.
    SplitTransfers
    /// Stale boxes are fetched across the current bytes between them.
    WidenTransfers
    /// A failed write does not poison what it wrote.
    NoPoison
    /// A failed write poisons later versions as well.
    PoisonRegion
    /// A failed node does not take down those that read what it wrote.
    NoDoom
    /// Order alone carries failure.
    DoomByOrder
    /// A failed transfer poisons the version it carried.
    TransferPoisons
    /// A failed transfer leaves its target valid.
    FailedTransferStaysValid
    /// The first reader of an epoch is all that a writer waits for.
    EpochForgetsReaders
    /// Readers join an epoch that covers more than they read.
    EpochJoinsTooMuch
    /// A partial write marks the whole cell.
    NoSplit
    /// A whole write does not heal poison.
    PoisonStays
    /// A read guard does not hold back writers on other replicas.
    GuardIgnoresReplicas
    /// A write guard holds back nobody.
    WriteGuardHoldsNobody
    /// A guard does not wait for earlier users.
    GuardDoesNotWait
    /// A cancelled group lets those behind it go before those ahead of it have ended.
    CancelOpensEarly
    /// A cancelled group's output counts as written.
    CancelCountsAsWritten
    /// An explicit dependency is dropped.
    DropExplicit
    /// An order-only dependency carries failure.
    AfterEndFails
    /// Groups of an in-order queue are not ordered.
    InOrderForgets
    /// Every write orders behind users of every replica.
    HazardsEverywhere
    /// Two disjoint ranges of one buffer are ordered.
    RangesConflict
    /// Verdicts of what a node read are not awaited.
    NoWaitForVerdicts
    /// Waits on other lanes are dropped.
    DropLaneWaits
    /// The feed list is fed from its end.
    FeedFromTheEnd
    /// A native wait is made for a point whose native call is still being made.
    WaitForUnrecorded
    /// A verdict ends a group while its native call is still being made.
    VerdictBeforeConfirm
    /// Readers join an epoch that a writer waits for already.
    EpochStaysOpen
    /// A group that is doomed when it is planned moves data all the same.
    DoomedMoves
    /// A cancelled group that leaves what was there before leaves it well though it had failed.
    KeepPreviousHeals
    /// Whoever explicitly depends on a cancelled group that leaves what was there before runs.
    KeepPreviousHidesCancel
    /// A guard waits for transfers, which change no data.
    GuardWaitsForTransfers
    /// A guard counts as the author of what it may write: those who come later fail with it.
    GuardIsAuthor
    /// Copies that a guard made stale stay so though it never had its memory.
    ReserveForgotten
    /// Groups run before their memory is there.
    NoGateForMemory
    /// A lane is fed beyond its depth.
    DepthIgnored
    /// What was only in a lost context counts as still there.
    LossForgotten
    /// A copy is given to a lost device that shares the heap.
    LostDeviceCopies
    /// A failed transfer whose source is lost leaves a version that is nowhere.
    LastCopyForgotten
    /// A root goes when its last handle does, used or not.
    RootGoesEarly
    /// A proxy fires when its source has passed, and not when it has settled.
    ProxyFiresEarly
    /// A writer waits for the last reader that was fed, and not for those on other lanes.
    EpochKeepsOnePoint
    /// An upload does not wait for users of the memory it overwrites; copies in one step do.
    UploadIgnoresTargetUsers
    /// Nobody asks for the verdicts of what an awaited group has read.
    InputsNotWanted
    /// Nobody asks for the verdict of an awaited group.
    NotArmed
    /// A lane is asked to report a point while the native call there is still being made.
    ArmedBeforeFed
    /// An id that outlives its slot names whoever came next.
    SlotReusedEarly
    /// Several transfers come from a source where fewer would do.
    FirstSourceOnly
    /// A transfer carries versions that may fail apart.
    JoinAcrossAuthors
}
