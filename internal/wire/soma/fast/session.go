package fast

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	announcedSize = 33
	joiningSize   = 14
	// joinPayload is the length of what a JOIN seals, always: a JOIN is longer than its answer.
	joinPayload = 160
	// refusalPayload is the length of what a JOIN seals that refuses, and says why, always. A sender that knows no
	// refusals takes it for a JOIN of a wrong size, and takes nobody in.
	refusalPayload = 400
	// MaxDetail is the longest text about why somebody refuses, in bytes.
	MaxDetail = 240
	// MaxMember is the longest name of a member, and of a LAN, in bytes.
	MaxMember = 64
	maxName   = 255
)

// Announcement is what is replicated.
type Announcement struct {
	Kind        uint8
	Permissions uint16
	Length      uint64
	Time        time.Time
	Datagram    uint16 // how large datagrams are; zero before that is decided
	// Sender is where the sender takes what members say. Where an announcement came from says nothing: anybody can send
	// it again.
	Sender netip.AddrPort
	Name   string
	// Zeros is how many bytes are in holes. Earlier senders do not tell.
	Zeros uint64
}

// Announce seals an announcement into a datagram of a size, which must have room for it.
func (b *Box) Announce(number uint64, salt Salt, public []byte, a Announcement, size int) []byte {
	clear := append(append([]byte(nil), salt[:]...), public...)
	payload := a.append(nil)
	payload = append(payload, make([]byte, max(0, size-Overhead-len(clear)-len(payload)))...)
	return b.SealAfter(nil, Head{Kind: Announce, Number: number}, clear, payload)
}

func (a Announcement) append(payload []byte) []byte {
	payload = append(payload, a.Kind, 0)
	payload = binary.BigEndian.AppendUint16(payload, a.Permissions)
	payload = binary.BigEndian.AppendUint64(payload, a.Length)
	payload = binary.BigEndian.AppendUint64(payload, uint64(a.Time.Unix()))
	payload = binary.BigEndian.AppendUint32(payload, uint32(a.Time.Nanosecond()))
	payload = binary.BigEndian.AppendUint16(payload, a.Datagram)
	address := a.Sender.Addr().As4()
	payload = binary.BigEndian.AppendUint16(append(payload, address[:]...), a.Sender.Port())
	payload = append(append(payload, byte(len(a.Name))), a.Name...)
	return binary.BigEndian.AppendUint64(payload, a.Zeros)
}

// Announced is an announcement that was opened, and what it was opened with.
type Announced struct {
	Announcement
	Secret Secret
	Public []byte // the sender's
	Size   int    // of the datagram that came
}

// OpenAnnouncement opens an announcement with the group's key.
func OpenAnnouncement(group []byte, h Head, datagram []byte) (Announced, error) {
	const clear = SaltSize + PublicSize
	if h.Kind != Announce || len(datagram) < Overhead+clear {
		return Announced{}, ErrForged
	}
	salt := Salt(datagram[headSize:])
	a := Announced{Secret: NewSecret(group, salt), Size: len(datagram)}
	payload, err := a.Secret.Group().OpenAfter(nil, h, clear, datagram)
	if err != nil {
		return Announced{}, err
	}
	a.Public = append(a.Public, datagram[headSize+SaltSize:headSize+clear]...)
	a.Announcement, err = ParseAnnouncement(payload)
	return a, err
}

// ParseAnnouncement reads the payload of an announcement.
func ParseAnnouncement(from []byte) (Announcement, error) {
	if len(from) < announcedSize || len(from) < announcedSize+int(from[announcedSize-1]) {
		return Announcement{}, fmt.Errorf("%w: announcement of %d bytes", ErrProtocol, len(from))
	}
	nanoseconds := binary.BigEndian.Uint32(from[20:])
	if nanoseconds >= 1e9 {
		return Announcement{}, fmt.Errorf("%w: %d nanoseconds", ErrProtocol, nanoseconds)
	}
	a := Announcement{
		Kind: from[0], Permissions: binary.BigEndian.Uint16(from[2:]), Length: binary.BigEndian.Uint64(from[4:]),
		Time:     time.Unix(int64(binary.BigEndian.Uint64(from[12:])), int64(nanoseconds)),
		Datagram: binary.BigEndian.Uint16(from[24:]),
		Sender:   netip.AddrPortFrom(netip.AddrFrom4([4]byte(from[26:])), binary.BigEndian.Uint16(from[30:])), Name: string(from[announcedSize : announcedSize+int(from[announcedSize-1])]),
	}
	if more := from[announcedSize+len(a.Name):]; len(more) >= 8 {
		a.Zeros = binary.BigEndian.Uint64(more)
	}
	if a.Zeros > a.Length {
		return Announcement{}, fmt.Errorf("%w: %d of %d bytes in holes", ErrProtocol, a.Zeros, a.Length)
	}
	if a.Sender.Port() == 0 || a.Sender.Addr().IsUnspecified() || a.Sender.Addr().IsMulticast() {
		return Announcement{}, fmt.Errorf("%w: a sender at %v", ErrProtocol, a.Sender)
	}
	if a.Datagram != 0 && (a.Datagram < MinDatagram || a.Datagram > MaxDatagram) {
		return Announcement{}, fmt.Errorf("%w: datagrams of %d bytes", ErrProtocol, a.Datagram)
	}
	return a, nil
}

// Joining is what a member says of itself.
type Joining struct {
	Heard  uint16 // the largest datagram that came
	Buffer uint32 // bytes that its socket holds
	Have   uint64 // bytes of the object that it has already, from the first on, or HaveUnknown
	Name   string
	LAN    string
	// Refused is why it will not be a member, and Detail says the same to people; NoReason is that it will.
	Refused Reason
	Detail  string
	// Proof is that it has the name; zero where there are no managers, who give keys for that, and of earlier members.
	Proof Proof
}

// HaveUnknown says that a member still reads what it has, and joins when it knows.
const HaveUnknown = 1<<64 - 1

// JoinAs seals a JOIN. Names are at most MaxMember bytes; what is longer than MaxDetail of a detail is cut off.
func (s Secret) JoinAs(number uint64, public []byte, j Joining) []byte {
	size := joinPayload
	if j.Refused != NoReason {
		size = refusalPayload
	}
	payload := j.append(make([]byte, 0, size))
	payload = append(payload, make([]byte, max(0, size-ProofSize-len(payload)))...)
	return s.Joining(public).SealAfter(nil, Head{Kind: Join, Number: number}, public, append(payload, j.Proof[:]...))
}

// append writes what a JOIN says, without its proof.
func (j Joining) append(to []byte) []byte {
	to = binary.BigEndian.AppendUint16(to, j.Heard)
	to = binary.BigEndian.AppendUint32(to, j.Buffer)
	to = binary.BigEndian.AppendUint64(to, j.Have)
	to = append(append(to, byte(len(j.Name))), j.Name...)
	to = append(append(to, byte(len(j.LAN))), j.LAN...)
	if j.Refused != NoReason {
		detail := clip(j.Detail)
		to = append(append(to, byte(j.Refused), byte(len(detail))), detail...)
	}
	return to
}

// clip cuts a text off at MaxDetail, between two characters.
func clip(text string) string {
	text = strings.ToValidUTF8(text, "?")
	return strings.ToValidUTF8(text[:min(len(text), MaxDetail)], "")
}

// JoinKey returns the public key that is in a JOIN, clear; zero if it is none.
func JoinKey(datagram []byte) (public [PublicSize]byte) {
	if len(datagram) >= headSize+PublicSize {
		copy(public[:], datagram[headSize:])
	}
	return public
}

// OpenJoin opens a JOIN, and returns the member's public key.
func (s Secret) OpenJoin(h Head, datagram []byte) (Joining, []byte, error) {
	size := len(datagram) - Overhead - PublicSize
	if h.Kind != Join || size != joinPayload && size != refusalPayload {
		return Joining{}, nil, ErrForged
	}
	public := append([]byte(nil), datagram[headSize:headSize+PublicSize]...)
	payload, err := s.Joining(public).OpenAfter(nil, h, PublicSize, datagram)
	if err != nil {
		return Joining{}, nil, err
	}
	j, err := parseJoining(payload)
	return j, public, err
}

func parseJoining(from []byte) (j Joining, err error) {
	if len(from) < joiningSize+ProofSize {
		return j, fmt.Errorf("%w: JOIN of %d bytes", ErrProtocol, len(from))
	}
	j.Heard, j.Buffer = binary.BigEndian.Uint16(from), binary.BigEndian.Uint32(from[2:])
	j.Have = binary.BigEndian.Uint64(from[6:])
	rest := from[joiningSize : len(from)-ProofSize]
	j.Proof = Proof(from[len(from)-ProofSize:])
	for _, to := range []*string{&j.Name, &j.LAN} {
		if len(rest) == 0 || rest[0] > MaxMember || len(rest) < 1+int(rest[0]) {
			return Joining{}, fmt.Errorf("%w: a name in a JOIN is cut off or too long", ErrProtocol)
		}
		*to, rest = string(rest[1:1+rest[0]]), rest[1+rest[0]:]
	}
	if j.Name == "" || j.Heard < MinDatagram {
		return Joining{}, fmt.Errorf("%w: JOIN of %q, who heard %d bytes", ErrProtocol, j.Name, j.Heard)
	}
	if len(from) == refusalPayload {
		err = j.parseRefusal(rest)
	}
	return j, err
}

// parseRefusal reads what a JOIN that refuses says after its names.
func (j *Joining) parseRefusal(from []byte) error {
	if len(from) < 2 || from[1] > MaxDetail || len(from) < 2+int(from[1]) {
		return fmt.Errorf("%w: the reason in a JOIN is cut off or too long", ErrProtocol)
	}
	j.Refused, j.Detail = Reason(from[0]), string(from[2:2+from[1]])
	if j.Refused == NoReason || j.Refused > Refused || !utf8.ValidString(j.Detail) {
		return fmt.Errorf("%w: JOIN of %q, who refuses for reason %d, %q", ErrProtocol, j.Name, j.Refused, j.Detail)
	}
	return nil
}

// AppendWelcome writes the payload of a WELCOME.
func AppendWelcome(to []byte, datagram uint16) []byte {
	return binary.BigEndian.AppendUint16(to, datagram)
}

// ParseWelcome reads the payload of a WELCOME.
func ParseWelcome(from []byte) (datagram uint16, err error) {
	if len(from) != 2 {
		return 0, fmt.Errorf("%w: WELCOME of %d bytes", ErrProtocol, len(from))
	}
	if datagram = binary.BigEndian.Uint16(from); datagram < MinDatagram || datagram > MaxDatagram {
		return 0, fmt.Errorf("%w: datagrams of %d bytes", ErrProtocol, datagram)
	}
	return datagram, nil
}

// AppendBye writes the payload of a BYE: why the sender cannot go on, of which what is longer than MaxDetail is cut off. It is
// empty where nothing is wrong.
func AppendBye(to []byte, reason string) []byte { return append(to, clip(reason)...) }

// ParseBye reads the payload of a BYE.
func ParseBye(from []byte) (reason string, err error) {
	if len(from) > MaxDetail || !utf8.Valid(from) {
		return "", fmt.Errorf("%w: BYE with a text of %d bytes", ErrProtocol, len(from))
	}
	return string(from), nil
}

// AppendSeal writes the payload of a SEAL.
func AppendSeal(to []byte, length uint64, root [RootSize]byte) []byte {
	return append(binary.BigEndian.AppendUint64(to, length), root[:]...)
}

// ParseSeal reads the payload of a SEAL.
func ParseSeal(from []byte) (length uint64, root [RootSize]byte, err error) {
	if len(from) != 8+RootSize {
		return 0, root, fmt.Errorf("%w: SEAL of %d bytes", ErrProtocol, len(from))
	}
	return binary.BigEndian.Uint64(from), [RootSize]byte(from[8:]), nil
}
