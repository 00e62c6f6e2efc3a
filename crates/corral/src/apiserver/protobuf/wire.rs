//! The wire format: numbered fields, one behind the other.

/// What a field holds, as far as the wire says.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32,
    Bytes(&'a [u8]),
}

impl Wire<'_> {
    pub fn text(self) -> Result<String, String> {
        match self {
            Wire::Bytes(bytes) => String::from_utf8(bytes.to_vec()).map_err(|_| "a text is not UTF-8".into()),
            _ => Err("a text was sent in the form of a number".into()),
        }
    }
}

/// The fields of a message, each with its number.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Fields { rest: bytes }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or("unexpected EOF")?;
        self.rest = rest;
        Ok(taken)
    }

    fn read(&mut self) -> Result<(u32, Wire<'a>), String> {
        let key = varint(&mut self.rest)?;
        let number = u32::try_from(key >> 3).map_err(|_| "a field has an impossible number")?;
        let wire = match key & 7 {
            0 => Wire::Varint(varint(&mut self.rest)?),
            1 => Wire::Fixed64(u64::from_le_bytes(self.take(8)?.try_into().unwrap_or_default())),
            2 => {
                let length = usize::try_from(varint(&mut self.rest)?).map_err(|_| "unexpected EOF")?;
                Wire::Bytes(self.take(length)?)
            }
            5 => {
                self.take(4)?;
                Wire::Fixed32
            }
            other => return Err(format!("proto: illegal wireType {other}")),
        };
        Ok((number, wire))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Wire<'a>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let read = self.read();
        if read.is_err() {
            self.rest = &[];
        }
        Some(read)
    }
}

fn varint(rest: &mut &[u8]) -> Result<u64, String> {
    let mut number = 0_u64;
    for place in 0..10 {
        let (byte, after) = rest.split_first().ok_or("unexpected EOF")?;
        *rest = after;
        number |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err("proto: integer overflow".into())
}

/// Numbers that were sent together.
pub(super) fn varints(mut packed: &[u8]) -> impl Iterator<Item = Result<u64, String>> {
    std::iter::from_fn(move || (!packed.is_empty()).then(|| varint(&mut packed).inspect_err(|_| packed = &[])))
}
