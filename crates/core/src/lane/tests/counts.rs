use super::super::test_world::Fault;
use super::{Kind, settings, world};
use crate::lane::LaneCounts;
use crate::ports::store::CommandKind;

#[test]
fn every_transaction_of_a_lane_is_counted_where_it_stands() {
    let mut world = world(settings());
    let none = LaneCounts { window: 4, ..LaneCounts::default() };
    assert_eq!(world.desk.lane.counts(), none);
    let accepted = world.desk.now;
    world.submit();
    world.carry(Kind::Load, Fault::None);
    assert_eq!(
        world.desk.lane.counts(),
        LaneCounts { waiting: 1, oldest_waiting: Some(accepted), ..none },
        "it is being signed, and nothing is stored yet"
    );
    world.carry(Kind::Sign, Fault::None);
    assert_eq!(world.desk.lane.counts(), LaneCounts { signed: 1, ..none });
    world.rest();
    assert_eq!(world.desk.lane.counts(), LaneCounts { out: 1, ..none });
    // The chain's count passes the slot, and the receipt is not seen yet.
    world.chain.mine(1, true, world.desk.now);
    world.show(0, false);
    assert_eq!(world.desk.lane.counts(), LaneCounts { out: 1, without_receipt: 1, ..none });
    world.carry(Kind::Look, Fault::None);
    assert_eq!(world.desk.lane.counts(), LaneCounts { mined: 1, ..none });
    world.finalise();
    assert_eq!(world.desk.lane.counts(), none);
    world.command(CommandKind::Pause);
    world.rest();
    assert_eq!(world.desk.lane.counts(), LaneCounts { held: true, ..none });
}
