//! Operations of sub-groups.

use naga::{
    CollectiveOperation, Expression, GatherMode, Handle, Scalar, ScalarKind, SubgroupOperation, VectorSize,
};

use super::Dialect;
use super::body::Body;
use super::types::CType;
use crate::error::{Outcome, refuse};

/// One word of a ballot. Not every device with sub-groups has ballots: the sum of the items' own bits is the same.
const BALLOT: &str = "\
static inline uint w_ballot_word(bool value, uint word) {
    const uint lane = get_sub_group_local_id();
    return sub_group_reduce_add(value && lane / 32u == word ? 1u << (lane % 32u) : 0u);
}

";

impl Body<'_, '_> {
    /// What the values of a sub-group's items make together.
    pub(super) fn collective(
        &mut self,
        op: SubgroupOperation,
        way: CollectiveOperation,
        argument: Handle<Expression>,
        result: Handle<Expression>,
    ) -> Outcome<()> {
        use CollectiveOperation::{ExclusiveScan, InclusiveScan, Reduce};
        use SubgroupOperation::{Add, All, Any, Max, Min};
        let value = self.value(argument)?;
        let text = match (self.program.dialect, op, way) {
            (Dialect::OpenClC, All, Reduce) => format!("(bool)sub_group_all((int)({value}))"),
            (Dialect::OpenClC, Any, Reduce) => format!("(bool)sub_group_any((int)({value}))"),
            (Dialect::CudaC, All, Reduce) => format!("(bool)__all_sync(__activemask(), {value})"),
            (Dialect::CudaC, Any, Reduce) => format!("(bool)__any_sync(__activemask(), {value})"),
            (dialect, Add | Min | Max, way) => {
                let op = match op {
                    Add => "add",
                    Min => "min",
                    _ => "max",
                };
                let way = match way {
                    Reduce => "reduce",
                    InclusiveScan => "scan_inclusive",
                    ExclusiveScan => "scan_exclusive",
                };
                match dialect {
                    Dialect::OpenClC => format!("sub_group_{way}_{op}({value})"),
                    Dialect::CudaC => format!("{}({value})", self.warp_function(argument, op, way)?),
                }
            }
            (_, op, way) => return refuse(format!("{op:?} by {way:?} over a sub-group")),
        };
        self.open_subgroups();
        self.declare(result, &text)
    }

    /// The value of another item of the sub-group.
    pub(super) fn gather(
        &mut self,
        mode: GatherMode,
        argument: Handle<Expression>,
        result: Handle<Expression>,
    ) -> Outcome<()> {
        let value = self.value(argument)?;
        let text = match (self.program.dialect, mode) {
            (Dialect::OpenClC, GatherMode::BroadcastFirst) => format!("sub_group_broadcast({value}, 0u)"),
            (Dialect::CudaC, GatherMode::BroadcastFirst) => {
                format!("__shfl_sync(__activemask(), {value}, __ffs((int)__activemask()) - 1)")
            }
            (Dialect::OpenClC, GatherMode::Shuffle(from)) => {
                self.program.extend("#pragma OPENCL EXTENSION cl_khr_subgroup_shuffle : enable\n");
                format!("sub_group_shuffle({value}, {})", self.value(from)?)
            }
            (Dialect::CudaC, GatherMode::Shuffle(from)) => {
                format!("__shfl_sync(__activemask(), {value}, (int)({}))", self.value(from)?)
            }
            (_, other) => return refuse(format!("{other:?} in a sub-group")),
        };
        self.open_subgroups();
        self.declare(result, &text)
    }

    /// A bit for each item of the sub-group.
    pub(super) fn ballot(
        &mut self,
        predicate: Option<Handle<Expression>>,
        result: Handle<Expression>,
    ) -> Outcome<()> {
        let value = predicate.map_or(Ok("true".into()), |predicate| self.value(predicate))?;
        self.open_subgroups();
        let words = match self.program.dialect {
            Dialect::OpenClC => {
                self.program.extend(BALLOT);
                [0, 1, 2, 3].map(|word| format!("w_ballot_word({value}, {word}u)")).join(", ")
            }
            Dialect::CudaC => format!("__ballot_sync(__activemask(), {value}), 0u, 0u, 0u"),
        };
        let text = self.program.vector_of(VectorSize::Quad, Scalar::U32, &words)?;
        self.declare(result, &text)
    }

    pub(super) fn open_subgroups(&mut self) {
        if self.program.dialect == Dialect::OpenClC {
            self.program.extend("#pragma OPENCL EXTENSION cl_khr_subgroups : enable\n");
        }
    }

    /// A function that combines the values of those items of a warp that are there, one after the other.
    fn warp_function(&mut self, argument: Handle<Expression>, op: &str, way: &str) -> Outcome<String> {
        let ty = self.type_of(argument)?;
        let scalar = match ty {
            CType::Scalar(scalar) => scalar,
            _ => return refuse("vectors in sub-groups"),
        };
        let c = self.program.type_name(ty)?;
        let name = format!("w_warp_{way}_{op}_{c}");
        let combined = match (op, scalar.kind) {
            ("add", ScalarKind::Sint) => "(int)((uint)all + (uint)other)",
            ("add", _) => "all + other",
            ("min", _) => "other < all ? other : all",
            _ => "other > all ? other : all",
        };
        // An exclusive sum starts with zero, everything else with the first value that counts.
        let (counts, start) = match way {
            "reduce" => ("true", "value; bool started = false"),
            "scan_inclusive" => ("from <= lane", "value; bool started = false"),
            _ => ("from < lane", "0; bool started = true"),
        };
        self.program.helpers.define(&name, || {
            format!(
                "static __device__ {c} {name}({c} value) {{
    const uint mask = __activemask();
    const int lane = (int)(threadIdx.x & 31u);
    {c} all = {start};
    for (uint rest = mask; rest != 0u; rest &= rest - 1u) {{
        const int from = __ffs((int)rest) - 1;
        const {c} other = __shfl_sync(mask, value, from);
        if ({counts}) {{
            all = started ? ({combined}) : other;
            started = true;
        }}
    }}
    return all;
}}

"
            )
        });
        Ok(name)
    }
}
