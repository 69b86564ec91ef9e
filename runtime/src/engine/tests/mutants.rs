//! Every deliberate fault is found by the oracle, at a seed with a name, where the engine as it is passes.

use super::super::Mutant;
use super::super::oracle::{engine, engine_agrees, engine_agrees_on_data};

#[rustfmt::skip]
const FOUND: &[(Mutant, u64)] = &[
    (Mutant::DropWriteAfterRead, 1),
    (Mutant::DropWriteAfterWrite, 2),
    (Mutant::DropReadAfterWrite, 0),
    (Mutant::KeepOthersValid, 1),
    (Mutant::FetchForNoInit, 1),
    (Mutant::NoFetchForKeep, 1),
    (Mutant::ForgetTransfer, 2),
    (Mutant::ValidityAtCompletion, 2),
    (Mutant::TransferIgnoresTargetUsers, 15),
    (Mutant::TransferDoesNotRead, 2),
    (Mutant::FetchNeverWritten, 0),
    (Mutant::SplitTransfers, 1),
    (Mutant::WidenTransfers, 2),
    (Mutant::NoPoison, 90),
    (Mutant::PoisonRegion, 32),
    (Mutant::NoDoom, 1),
    (Mutant::DoomByOrder, 14),
    (Mutant::TransferPoisons, 501),
    (Mutant::FailedTransferStaysValid, 3982),
    (Mutant::EpochForgetsReaders, 97),
    (Mutant::EpochJoinsTooMuch, 53),
    (Mutant::NoSplit, 3),
    (Mutant::PoisonStays, 84),
    (Mutant::GuardIgnoresReplicas, 2),
    (Mutant::WriteGuardHoldsNobody, 23),
    (Mutant::GuardDoesNotWait, 2),
    (Mutant::CancelOpensEarly, 2),
    (Mutant::CancelCountsAsWritten, 2),
    (Mutant::DropExplicit, 3),
    (Mutant::AfterEndFails, 6),
    (Mutant::InOrderForgets, 2),
    (Mutant::HazardsEverywhere, 5),
    (Mutant::RangesConflict, 3),
    (Mutant::NoWaitForVerdicts, 7),
    (Mutant::DropLaneWaits, 0),
    (Mutant::FeedFromTheEnd, 22),
    (Mutant::WaitForUnrecorded, 26),
    (Mutant::VerdictBeforeConfirm, 40),
    (Mutant::EpochStaysOpen, 369),
    (Mutant::DoomedMoves, 84),
    (Mutant::KeepPreviousHeals, 1363),
    (Mutant::KeepPreviousHidesCancel, 1154),
    (Mutant::GuardWaitsForTransfers, 2),
    (Mutant::GuardIsAuthor, 35),
    (Mutant::ReserveForgotten, 35),
    (Mutant::NoGateForMemory, 0),
    (Mutant::DepthIgnored, 2),
    (Mutant::LossForgotten, 116),
    (Mutant::LostDeviceCopies, 10514),
    (Mutant::LastCopyForgotten, 20560),
    (Mutant::RootGoesEarly, 0),
    (Mutant::ProxyFiresEarly, 1163),
    (Mutant::EpochKeepsOnePoint, 7178),
    (Mutant::UploadIgnoresTargetUsers, 29),
    (Mutant::InputsNotWanted, 7),
    (Mutant::NotArmed, 5),
    (Mutant::SlotReusedEarly, 1),
    (Mutant::ArmedBeforeFed, 0),
    (Mutant::FirstSourceOnly, 2),
    (Mutant::JoinAcrossAuthors, 2),
];

/// Faults in the order that data shows, with nobody looking at edges: what groups see, and what is left, is enough.
#[rustfmt::skip]
const FOUND_BY_DATA: &[(Mutant, u64)] = &[
    (Mutant::DropWriteAfterRead, 15),
    (Mutant::DropWriteAfterWrite, 18),
    (Mutant::DropReadAfterWrite, 0),
    (Mutant::TransferIgnoresTargetUsers, 15),
    (Mutant::TransferDoesNotRead, 15),
    (Mutant::UploadIgnoresTargetUsers, 440),
    (Mutant::EpochForgetsReaders, 180),
    (Mutant::EpochKeepsOnePoint, 7178),
    (Mutant::GuardIgnoresReplicas, 361),
    (Mutant::WriteGuardHoldsNobody, 233),
    (Mutant::GuardDoesNotWait, 284),
    (Mutant::DropLaneWaits, 0),
    (Mutant::FeedFromTheEnd, 22),
];

#[test]
fn each_mutant_is_found_at_its_seed() {
    for mutant in Mutant::ALL {
        assert!(FOUND.iter().any(|(m, _)| m == mutant), "{mutant:?} has no seed");
    }
    for (mutant, seed) in FOUND {
        if let Err(failure) = engine(*seed, None) {
            panic!("{failure}");
        }
        assert!(!engine_agrees(*seed, Some(*mutant)), "{mutant:?} survives seed {seed}");
    }
}

#[test]
fn faults_in_the_order_show_in_the_data() {
    for (mutant, seed) in FOUND_BY_DATA {
        assert!(engine_agrees_on_data(*seed, None), "seed {seed}");
        assert!(!engine_agrees_on_data(*seed, Some(*mutant)), "{mutant:?} survives seed {seed}");
    }
}

#[test]
fn a_transfer_that_fails_for_others_shows_in_how_groups_end() {
    // With nobody looking at how transfers are cut: somebody is doomed by what they do not read.
    assert!(engine_agrees_on_data(1482, None));
    assert!(!engine_agrees_on_data(1482, Some(Mutant::JoinAcrossAuthors)));
}
