//! The few messages of etcd's API that are spoken here, in the encoding of protocol buffers.
//!
//! Numbers of fields: <https://github.com/etcd-io/etcd/blob/main/api/etcdserverpb/rpc.proto>. They have been the same since 3.0, but
//! for learners, which came with 3.4.

/// The value of one field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// One that listens to others is asked what the majority knows, not what it remembers.
pub fn list_members() -> Vec<u8> {
    number(1, 1)
}

pub fn remove_member(id: u64) -> Vec<u8> {
    number(1, id)
}

pub fn move_leader(to: u64) -> Vec<u8> {
    number(1, to)
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listed {
    pub id: u64,
    /// Empty for one that has not started.
    pub name: String,
    pub learner: bool,
}

pub fn read_members(message: &[u8]) -> Option<Vec<Listed>> {
    let mut members = Vec::new();
    for (tag, field) in fields(message)? {
        if let (2, Field::Bytes(member)) = (tag, field) {
            members.push(read_member(member)?);
        }
    }
    Some(members)
}

fn read_member(message: &[u8]) -> Option<Listed> {
    let mut member = Listed::default();
    for (tag, field) in fields(message)? {
        match (tag, field) {
            (1, Field::Number(id)) => member.id = id,
            (2, Field::Bytes(name)) => member.name = String::from_utf8_lossy(name).into_owned(),
            (5, Field::Number(flag)) => member.learner = flag != 0,
            _ => {}
        }
    }
    Some(member)
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    /// Who answers; 0 if it does not say.
    pub member: u64,
    /// 0 if it knows none.
    pub leader: u64,
    /// What is wrong, alarms among them; since 3.4.
    pub errors: Vec<String>,
}

pub fn read_status(message: &[u8]) -> Option<Status> {
    let mut status = Status::default();
    for (tag, field) in fields(message)? {
        match (tag, field) {
            (1, Field::Bytes(header)) => {
                let id = fields(header)?.into_iter().find_map(|(tag, field)| match (tag, field) {
                    (2, Field::Number(id)) => Some(id),
                    _ => None,
                });
                status.member = id.unwrap_or(0);
            }
            (4, Field::Number(leader)) => status.leader = leader,
            (8, Field::Bytes(error)) => status.errors.push(String::from_utf8_lossy(error).into_owned()),
            _ => {}
        }
    }
    Some(status)
}

/// A message of one number. 0 is what is not written.
fn number(tag: u8, value: u64) -> Vec<u8> {
    let mut message = Vec::new();
    if value != 0 {
        message.push(tag << 3);
        write_varint(&mut message, value);
    }
    message
}

fn write_varint(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    message.push(value.to_le_bytes()[0]);
}

/// Every field of a message, in the order in which they stand; none if it is cut off or no such message.
fn fields(mut message: &[u8]) -> Option<Vec<(u64, Field<'_>)>> {
    let mut found = Vec::new();
    while !message.is_empty() {
        let key = read_varint(&mut message)?;
        let field = match key & 7 {
            0 => Field::Number(read_varint(&mut message)?),
            1 => Field::Bytes(message.split_off(..8)?),
            2 => {
                let length = usize::try_from(read_varint(&mut message)?).ok()?;
                Field::Bytes(message.split_off(..length)?)
            }
            5 => Field::Bytes(message.split_off(..4)?),
            _ => return None,
        };
        found.push((key >> 3, field));
    }
    Some(found)
}

fn read_varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *message.split_off_first()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_a_member_takes_all_of_64_bits() {
        let id = 0x8e9e_05c5_2164_694d;
        let message = remove_member(id);
        assert_eq!(message, [0x08, 0xcd, 0xd2, 0x91, 0x8b, 0xd2, 0xb8, 0x81, 0xcf, 0x8e, 0x01]);
        assert_eq!(fields(&message), Some(vec![(1, Field::Number(id))]));
    }

    #[test]
    fn members_are_read_with_what_newer_releases_add() {
        let mut message = vec![0x0a, 2, 0x08, 7];
        // A member with an id, a name, a peer's address and a field that nobody knows yet.
        message.extend([0x12, 15, 0x08, 5, 0x12, 3, b'c', b'p', b'1', 0x1a, 1, b'x', 0x79, 0, 0, 0, 0]);
        assert_eq!(read_members(&message), None, "cut off in the middle of a number of eight bytes");
        message.extend([0, 0, 0, 0]);
        message[5] += 4;
        message.extend([0x12, 4, 0x08, 9, 0x28, 1]);
        assert_eq!(
            read_members(&message).unwrap(),
            [
                Listed { id: 5, name: "cp1".to_owned(), learner: false },
                Listed { id: 9, name: String::new(), learner: true },
            ]
        );
    }

    #[test]
    fn a_status_tells_who_answers_who_leads_and_what_is_wrong() {
        let message =
            [&[0x0a, 4, 0x08, 1, 0x10, 5, 0x12, 5][..], b"3.6.5", &[0x18, 0x80, 0x01, 0x20, 9, 0x42, 7], b"NOSPACE"]
                .concat();
        let status = read_status(&message).unwrap();
        assert_eq!(status, Status { member: 5, leader: 9, errors: vec!["NOSPACE".to_owned()] });
        assert_eq!(read_status(&[]), Some(Status::default()));
    }

    #[test]
    fn what_is_no_message_is_none() {
        assert_eq!(fields(&[0x0b]), None, "groups are not spoken");
        assert_eq!(fields(&[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]), None);
        assert_eq!(fields(&[0x80; 11]), None);
    }
}
