package relay

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Version is the version of this layout.
const Version = 1

const magic = "GCRL"

// Limits of a handshake.
const (
	MaxStripes    = 16
	MaxCapability = 4096
	helloSize     = 42         // before the capability
	welcomeSize   = HeaderSize // so that a BYE can stand in its place
)

// Flags of a hello.
const (
	flagOffer = 1 << iota
	flagPlaintext
	flagJoin
	flagDatagrams
	flagsKnown = iota
)

// DeliveryID names a delivery.
type DeliveryID [16]byte

// Hello is what opens a stripe, mostly from a child to its parent.
type Hello struct {
	Stripe, Stripes uint8 // Stripe counts from zero; Stripes is how many there will be at most
	Delivery        DeliveryID
	TreeVersion     uint64
	From            uint64 // offset of the first byte wanted; zero in an offer
	Offer           bool   // the end that opens the link is the parent
	Plaintext       bool   // what follows the hello, and the welcome, is not encrypted
	Join            bool   // this is a further stripe of an existing link
	Datagrams       bool   // the delivery comes in datagrams, sealed with the link's secret
	Capability      []byte // proves that the child may have the delivery
}

// Append writes the hello.
func (h Hello) Append(to []byte) []byte {
	to = append(to, magic...)
	to = append(to, Version, h.Stripe, h.Stripes, h.flags())
	to = append(to, h.Delivery[:]...)
	to = binary.BigEndian.AppendUint64(to, h.TreeVersion)
	to = binary.BigEndian.AppendUint64(to, h.From)
	to = binary.BigEndian.AppendUint16(to, uint16(len(h.Capability)))
	return append(to, h.Capability...)
}

func (h Hello) flags() (flags byte) {
	if h.Offer {
		flags |= flagOffer
	}
	if h.Plaintext {
		flags |= flagPlaintext
	}
	if h.Join {
		flags |= flagJoin
	}
	if h.Datagrams {
		flags |= flagDatagrams
	}
	return flags
}

// ReadHello reads a hello. It allocates memory for the capability only after it has checked everything before it.
func ReadHello(from io.Reader) (Hello, error) {
	var fixed [helloSize]byte
	if _, err := io.ReadFull(from, fixed[:]); err != nil {
		return Hello{}, fmt.Errorf("read hello: %w", err)
	}
	if err := checkOpening(fixed[:]); err != nil {
		return Hello{}, err
	}
	h := Hello{
		Stripe: fixed[5], Stripes: fixed[6], Delivery: DeliveryID(fixed[8:24]),
		TreeVersion: binary.BigEndian.Uint64(fixed[24:]), From: binary.BigEndian.Uint64(fixed[32:]),
		Offer: fixed[7]&flagOffer != 0, Plaintext: fixed[7]&flagPlaintext != 0,
		Join: fixed[7]&flagJoin != 0, Datagrams: fixed[7]&flagDatagrams != 0,
	}
	length := binary.BigEndian.Uint16(fixed[40:])
	switch {
	case fixed[7]>>flagsKnown != 0:
		return Hello{}, fmt.Errorf("%w: hello with flags %#x", ErrProtocol, fixed[7])
	case h.Stripes < 1 || h.Stripes > MaxStripes || h.Stripe >= h.Stripes:
		return Hello{}, fmt.Errorf("%w: stripe %d of %d", ErrProtocol, h.Stripe, h.Stripes)
	case h.Plaintext && h.Datagrams:
		return Hello{}, fmt.Errorf("%w: plaintext, and no bytes", ErrProtocol)
	case h.From > MaxOffset:
		return Hello{}, fmt.Errorf("%w: hello from offset %d", ErrProtocol, h.From)
	case length > MaxCapability:
		return Hello{}, fmt.Errorf("%w: capability of %d bytes: want at most %d", ErrProtocol, length, MaxCapability)
	}
	h.Capability = make([]byte, length)
	if _, err := io.ReadFull(from, h.Capability); err != nil {
		return Hello{}, fmt.Errorf("read hello: %w", err)
	}
	return h, nil
}

// checkOpening checks the beginning of a hello or a welcome.
func checkOpening(from []byte) error {
	if string(from[:len(magic)]) != magic {
		return fmt.Errorf("%w: not a relay: it begins with %q", ErrProtocol, from[:len(magic)])
	}
	if version := from[len(magic)]; version != Version {
		return fmt.Errorf("%w: version %d: this is version %d", ErrProtocol, version, Version)
	}
	return nil
}

// Welcome is how a parent accepts a stripe.
type Welcome struct {
	TreeVersion uint64
	From        uint64 // offset of the first byte that is sent; after an offer, of the first that is wanted
}

// Append writes the welcome.
func (w Welcome) Append(to []byte) []byte {
	to = append(to, magic...)
	to = append(to, Version, 0, 0, 0)
	to = binary.BigEndian.AppendUint64(to, w.TreeVersion)
	return binary.BigEndian.AppendUint64(to, w.From)
}

// Refusal is a BYE that answers a hello.
type Refusal struct {
	Reason Reason
	Text   string
	Offset uint64 // of the BYE
}

func (r *Refusal) Error() string { return fmt.Sprintf("parent refused: %v: %s", r.Reason, r.Text) }

// ReadWelcome reads the answer to a hello: a welcome, or a BYE, which becomes a *Refusal.
func ReadWelcome(from io.Reader) (Welcome, error) {
	var fixed [welcomeSize]byte
	if _, err := io.ReadFull(from, fixed[:]); err != nil {
		return Welcome{}, fmt.Errorf("read welcome: %w", err)
	}
	if Type(fixed[0]) == Bye {
		return Welcome{}, readRefusal(from, fixed[:])
	}
	if err := checkOpening(fixed[:]); err != nil {
		return Welcome{}, err
	}
	if fixed[5] != 0 || fixed[6] != 0 || fixed[7] != 0 {
		return Welcome{}, fmt.Errorf("%w: bytes that must be zero are not", ErrProtocol)
	}
	w := Welcome{TreeVersion: binary.BigEndian.Uint64(fixed[8:]), From: binary.BigEndian.Uint64(fixed[16:])}
	if w.From > MaxOffset {
		return Welcome{}, fmt.Errorf("%w: welcome from offset %d", ErrProtocol, w.From)
	}
	return w, nil
}

// readRefusal reads the rest of a BYE frame with the header given.
func readRefusal(from io.Reader, header []byte) error {
	parsed, err := ParseHeader(header)
	if err != nil {
		return err
	}
	payload := make([]byte, parsed.Length)
	if _, err := io.ReadFull(from, payload); err != nil {
		return fmt.Errorf("read refusal: %w", err)
	}
	reason, text, err := ParseBye(payload)
	if err != nil {
		return err
	}
	return &Refusal{reason, text, parsed.Offset}
}
