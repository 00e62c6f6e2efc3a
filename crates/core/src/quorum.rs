//! Would etcd keep its quorum without this node?

/// By this code a user accepts that one of two voters is taken out.
pub const CODE: &str = "DRV-ETCD-001";
/// The condition by which a Node says whether its member of etcd votes.
pub const IS_VOTER: &str = "EtcdIsVoter";
const NOT_A_MEMBER: &str = "NotAMember";

/// A Node, as far as etcd is concerned.
#[derive(Debug, Clone, Copy)]
pub struct Member<'a> {
    pub name: &'a str,
    /// Status and reason of its condition; none for a node without etcd.
    pub voter: Option<(&'a str, &'a str)>,
    /// Ready, and not taken out of service already.
    pub is_well: bool,
}

impl Member<'_> {
    pub fn votes(&self) -> bool {
        self.voter.is_some_and(|(status, _)| status == "True")
    }

    /// It votes, or learns to.
    pub fn is_member(&self) -> bool {
        self.voter.is_some() && !self.is_lost()
    }

    fn is_lost(&self) -> bool {
        self.voter.is_some_and(|(_, reason)| reason == NOT_A_MEMBER)
    }
}

/// Whether etcd has its quorum with so many voters, of which so many are out.
pub fn is_kept(voters: usize, out: usize) -> bool {
    voters.saturating_sub(out) > voters / 2
}

/// Why the node must not be taken out now, in a sentence; none if it may.
///
/// Whoever is not well, or was lost as a member, counts as out. A learner counts neither way. A sole voter may be taken out:
/// everybody knows what that means; one of two only where that is accepted.
pub fn at_risk<'a>(nodes: impl Iterator<Item = Member<'a>>, name: &str, accepted: bool) -> Option<String> {
    let members: Vec<Member<'_>> = nodes.filter(|node| node.votes() || node.is_lost()).collect();
    if !members.iter().any(|member| member.name == name && member.votes()) {
        return None;
    }
    let others = members.iter().filter(|other| other.name != name);
    let (well, out): (Vec<&Member<'_>>, Vec<_>) = others.partition(|other| other.votes() && other.is_well);
    let quorum = members.len() / 2 + 1;
    let is_accepted_pair = members.len() == 2 && out.is_empty() && accepted;
    if members.len() == 1 || well.len() >= quorum || is_accepted_pair {
        return None;
    }
    let names: Vec<&str> = out.iter().map(|member| member.name).collect();
    Some(match names.is_empty() {
        true => format!(
            "etcd has {} voters and needs {quorum}: {name} must not be taken out unless {CODE} is accepted",
            members.len()
        ),
        false => format!(
            "etcd needs {quorum} of {} voters, and {} is out: {name} must not be taken out as well",
            members.len(),
            names.join(", ")
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    type Says = Option<(&'static str, &'static str)>;

    const VOTES: Says = Some(("True", "MemberNotLearner"));
    const LEARNS: Says = Some(("False", "MemberIsLearner"));
    const LOST: Says = Some(("False", NOT_A_MEMBER));

    fn risk(members: &[(&str, Says, bool)], accepted: bool) -> Option<String> {
        let members = members.iter().map(|(name, voter, is_well)| Member { name, voter: *voter, is_well: *is_well });
        at_risk(members, "a", accepted)
    }

    #[test]
    fn one_of_three_voters_may_go() {
        assert_eq!(risk(&[("a", VOTES, true), ("b", VOTES, true), ("c", VOTES, true)], false), None);
    }

    #[test]
    fn none_may_go_while_another_is_out_or_was_lost_whatever_is_accepted() {
        for other in [("c", VOTES, false), ("c", LOST, true)] {
            for accepted in [false, true] {
                let said = risk(&[("a", VOTES, true), ("b", VOTES, true), other], accepted).unwrap();
                assert!(said.contains("c is out") && said.contains("a must not"), "{said}");
            }
        }
        assert!(risk(&[("a", VOTES, true), ("b", VOTES, false)], true).is_some());
    }

    #[test]
    fn a_learner_neither_counts_nor_helps() {
        assert_eq!(risk(&[("a", VOTES, true), ("b", LEARNS, true)], false), None);
        assert_eq!(risk(&[("a", LEARNS, true), ("b", VOTES, true)], false), None);
        assert_eq!(risk(&[("a", None, true), ("b", VOTES, true), ("c", VOTES, false)], false), None);
    }

    #[test]
    fn one_of_two_voters_may_go_where_that_is_accepted_and_a_sole_one_may() {
        let said = risk(&[("a", VOTES, true), ("b", VOTES, true)], false).unwrap();
        assert!(said.contains(CODE), "{said}");
        assert_eq!(risk(&[("a", VOTES, true), ("b", VOTES, true)], true), None);
        assert_eq!(risk(&[("a", VOTES, true)], false), None);
    }
}
