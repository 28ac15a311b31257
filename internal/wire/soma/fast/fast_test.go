package fast_test

import (
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/groupcast/groupcast/internal/wire/soma/fast"
)

var (
	salt   = fast.Salt{1, 2, 3, 4, 5}
	group  = []byte("the group's key")
	secret = fast.NewSecret(group, salt)
)

func private(t testing.TB) *ecdh.PrivateKey {
	t.Helper()
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func head(t testing.TB, datagram []byte) fast.Head {
	t.Helper()
	h, err := fast.ParseHead(datagram)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestDataIsOpenedWhereItBelongs(t *testing.T) {
	out, in := secret.Group(), secret.Group()
	payload := bytes.Repeat([]byte("x"), 1440)
	want := fast.Head{Kind: fast.Data, Index: 63, Block: 1<<32 - 1, Number: fast.MaxNumber}
	datagram := out.Seal(nil, want, payload)
	if len(datagram) != 1472 {
		t.Errorf("a packet of 1440 bytes is a datagram of %d", len(datagram))
	}
	h := head(t, datagram)
	want.Session = salt.Session()
	if h != want {
		t.Errorf("head %+v, want %+v", h, want)
	}
	block := make([]byte, 3*1440)
	got, err := in.Open(block[1440:1440:2880], h, datagram)
	if err != nil || &got[0] != &block[1440] || !bytes.Equal(block[1440:2880], payload) {
		t.Errorf("opened %d bytes: %v", len(got), err)
	}
}

// Every bit of a datagram is authenticated, the clear ones too.
func TestEveryBitCounts(t *testing.T) {
	box := secret.Group()
	datagram := box.Seal(nil, fast.Head{Kind: fast.Data, Number: 7}, []byte("payload"))
	for bit := range len(datagram) * 8 {
		forged := bytes.Clone(datagram)
		forged[bit/8] ^= 1 << (bit % 8)
		h, err := fast.ParseHead(forged)
		if err == nil {
			_, err = box.Open(nil, h, forged)
		}
		if err == nil {
			t.Errorf("bit %d can be flipped", bit)
		}
	}
}

// RFC 9001, section 6.6: a key seals at most 2^23 datagrams.
func TestKeysAreReplaced(t *testing.T) {
	out, in := secret.Group(), secret.Group()
	for _, number := range []uint64{0, 1<<22 - 1, 1 << 22, 1<<22 + 1, 1<<22 - 2, 9 << 22, fast.MaxNumber} {
		datagram := out.Seal(nil, fast.Head{Kind: fast.Data, Number: number}, []byte("same"))
		if got, err := in.Open(nil, head(t, datagram), datagram); err != nil || string(got) != "same" {
			t.Errorf("number %d: %q, %v", number, got, err)
		}
	}
}

// reliability D 6: feedback uses a secret known only to that member and the sender.
func TestNobodySpeaksForAnother(t *testing.T) {
	sender, member, other := private(t), private(t), private(t)
	mine, err := secret.Pair(member, sender.PublicKey().Bytes(), nil)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := secret.Pair(sender, member.PublicKey().Bytes(), nil)
	if err != nil {
		t.Fatal(err)
	}
	datagram := mine.Up().Seal(nil, fast.Head{Kind: fast.Report}, []byte("mine"))
	if got, err := theirs.Up().Open(nil, head(t, datagram), datagram); err != nil || string(got) != "mine" {
		t.Errorf("the sender opens %q, %v", got, err)
	}
	if _, err := theirs.Down().Open(nil, head(t, datagram), datagram); !errors.Is(err, fast.ErrForged) {
		t.Errorf("a report was sent back and opened: %v", err)
	}
	forger, err := secret.Pair(other, sender.PublicKey().Bytes(), nil)
	if err != nil {
		t.Fatal(err)
	}
	datagram = forger.Up().Seal(nil, fast.Head{Kind: fast.Report}, []byte("forged"))
	if _, err := theirs.Up().Open(nil, head(t, datagram), datagram); !errors.Is(err, fast.ErrForged) {
		t.Errorf("another member's report was opened: %v", err)
	}
	if _, err := secret.Pair(member, make([]byte, 32), nil); err == nil {
		t.Error("a public key of small order was taken")
	}
}

// A member that has the group's key, and no key of a name, is not believed by the member that has that name: neither to send, nor to have announced in a sender's
// session what that does not send. How large datagrams are is decided when members have joined.
func TestNobodySendsForAnother(t *testing.T) {
	told := fast.Announcement{Kind: 1, Permissions: 0o640, Length: 9, Time: time.Unix(1e9, 5), Sender: netip.MustParseAddrPort("10.1.2.3:7431"), Name: "n", Zeros: 1}
	name, sender, member := fast.NameKey([]byte("32 bytes that no member knows .."), "m"), private(t), private(t)
	mine, err := secret.Pair(member, sender.PublicKey().Bytes(), told.MutualKey(name))
	if err != nil {
		t.Fatal(err)
	}
	opens := func(mutual []byte) bool {
		theirs, err := secret.Pair(sender, member.PublicKey().Bytes(), mutual)
		if err != nil {
			t.Fatal(err)
		}
		datagram := theirs.Down().Seal(nil, fast.Head{Kind: fast.Welcome}, []byte("welcome"))
		_, err = mine.Down().Open(nil, head(t, datagram), datagram)
		return err == nil
	}
	decided := told
	decided.Datagram = 1472
	if !opens(told.MutualKey(name)) || !opens(decided.MutualKey(name)) {
		t.Error("the sender is not believed")
	}
	if opens(nil) || opens(told.MutualKey(fast.NameKey([]byte("32 bytes that no member knows .."), "another"))) {
		t.Error("another is believed to send")
	}
	for what, change := range map[string]func(a *fast.Announcement){
		"kind": func(a *fast.Announcement) { a.Kind++ }, "mode": func(a *fast.Announcement) { a.Permissions = 0o755 }, "length": func(a *fast.Announcement) { a.Length++ },
		"time": func(a *fast.Announcement) { a.Time = a.Time.Add(1) }, "name": func(a *fast.Announcement) { a.Name = "o" }, "zeros": func(a *fast.Announcement) { a.Zeros++ },
		"sender": func(a *fast.Announcement) { a.Sender = netip.MustParseAddrPort("10.1.2.4:7431") },
	} {
		other := told
		if change(&other); opens(other.MutualKey(name)) {
			t.Errorf("another %s is believed", what)
		}
	}
}

func TestAnnouncementsAndJoins(t *testing.T) {
	want := fast.Announcement{Kind: 1, Permissions: 0o640, Length: 1 << 40, Time: time.Unix(1e9, 5), Datagram: 1472, Sender: netip.MustParseAddrPort("10.1.2.3:7431"), Name: strings.Repeat("n", 255), Zeros: 1 << 39}
	public := private(t).PublicKey().Bytes()
	for _, size := range []int{fast.MinDatagram, 1472, fast.MaxDatagram} {
		datagram := secret.Group().Announce(3, salt, public, want, size)
		got, err := fast.OpenAnnouncement(group, head(t, datagram), datagram)
		if err != nil || got.Size != size || len(datagram) != size || !bytes.Equal(got.Public, public) {
			t.Errorf("announcement of %d bytes: %d, %v", size, got.Size, err)
		}
		if diff := cmp.Diff(want, got.Announcement, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
			t.Error(diff)
		}
		nowhere := want
		nowhere.Sender = netip.AddrPortFrom(netip.IPv4Unspecified(), 7431)
		if _, err := fast.OpenAnnouncement(group, head(t, datagram), secret.Group().Announce(3, salt, public, nowhere, size)); !errors.Is(err, fast.ErrProtocol) {
			t.Errorf("a sender that is nowhere: %v", err)
		}
		if _, err := fast.OpenAnnouncement([]byte("another key"), head(t, datagram), datagram); !errors.Is(err, fast.ErrForged) {
			t.Errorf("another group opens it: %v", err)
		}
	}
	join := fast.Joining{Heard: 1472, Buffer: 8 << 20, Have: 1 << 50, Name: strings.Repeat("m", 64), LAN: strings.Repeat("l", 64)}
	datagram := secret.JoinAs(9, public, join)
	got, key, err := secret.OpenJoin(head(t, datagram), datagram)
	if err != nil || !bytes.Equal(key, public) || got != join {
		t.Errorf("join %+v, %v", got, err)
	}
	pair, err := secret.Pair(private(t), public, nil)
	if err != nil {
		t.Fatal(err)
	}
	// P14: no answer is larger than what it answers.
	welcome := pair.Down().Seal(nil, fast.Head{Kind: fast.Welcome, Block: 1}, fast.AppendWelcome(nil, 1472))
	if len(welcome) > len(datagram) {
		t.Errorf("a JOIN of %d bytes is answered by %d", len(datagram), len(welcome))
	}
}

// What one sender tells another is for its session alone, and nobody says it with another's salt.
func TestFencesAreOfTwoSessions(t *testing.T) {
	want := fast.Fencing{
		Announcement: fast.Announcement{Kind: 1, Length: 1 << 40, Time: time.Unix(1e9, 5), Datagram: 1472, Sender: netip.MustParseAddrPort("10.1.2.3:7431"), Name: strings.Repeat("n", 255)},
		Salt:         fast.Salt{9, 9}, Age: 90 * time.Second,
	}
	datagram := secret.Fence(3, want)
	got, err := secret.OpenFence(head(t, datagram), datagram)
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); err != nil || diff != "" || !got.HasBegun() {
		t.Error(err, diff)
	}
	// P14: no answer is larger than what it answers.
	if len(datagram) > fast.MinDatagram {
		t.Errorf("an announcement is answered by %d bytes", len(datagram))
	}
	later := fast.NewSecret(group, fast.Salt{1, 2, 3, 4, 6}) // a session of the same name
	stranger := fast.NewSecret([]byte("another key"), salt)
	for _, other := range []fast.Secret{later, stranger} {
		if _, err := other.OpenFence(head(t, datagram), datagram); !errors.Is(err, fast.ErrForged) {
			t.Errorf("another opens it: %v", err)
		}
	}
	want.Salt[0]++
	another := secret.Fence(3, want) // which has the same number, so it needs another key
	if sealed := 16 + fast.SaltSize; bytes.Equal(another[sealed:sealed+16], datagram[sealed:sealed+16]) {
		t.Error("two senders seal with one key and one number")
	}
	copy(another[16:], datagram[16:16+fast.SaltSize])
	if _, err := secret.OpenFence(head(t, another), another); !errors.Is(err, fast.ErrForged) {
		t.Errorf("with another's salt: %v", err)
	}
}

// A member that refuses says why. What is said is cut off at a whole character, and what no correct peer says is not taken.
func TestRefusals(t *testing.T) {
	public := private(t).PublicKey().Bytes()
	names := strings.Repeat("n", fast.MaxMember)
	for detail, want := range map[string]string{
		"": "", "no room on disk": "no room on disk", strings.Repeat("d", fast.MaxDetail): strings.Repeat("d", fast.MaxDetail),
		strings.Repeat("d", fast.MaxDetail-1) + "é": strings.Repeat("d", fast.MaxDetail-1), "\xff": "?",
	} {
		said := fast.Joining{Heard: 1472, Name: names, LAN: names, Refused: fast.NoRoom, Detail: detail}
		datagram := secret.JoinAs(9, public, said)
		got, key, err := secret.OpenJoin(head(t, datagram), datagram)
		said.Detail = want
		if err != nil || !bytes.Equal(key, public) || got != said {
			t.Errorf("%q is read as %+v, %v", detail, got, err)
		}
		if len(datagram) > fast.MinDatagram {
			t.Errorf("a refusal has %d bytes, and %d pass everywhere", len(datagram), fast.MinDatagram)
		}
	}
	for name, change := range map[string]func(tail []byte){
		"no reason": func(tail []byte) { tail[0] = 0 }, "an unknown reason": func(tail []byte) { tail[0] = 5 },
		"a text that is too long": func(tail []byte) { tail[1] = fast.MaxDetail + 1 }, "a text that is none": func(tail []byte) { tail[2] = 0xff },
	} {
		payload := make([]byte, 400)
		copy(payload, append(binaryJoin("m"), byte(fast.Refused), 1, 'x'))
		if _, err := openJoin(t, public, payload); err != nil {
			t.Fatalf("what is changed is wrong before: %v", err)
		}
		change(payload[len(binaryJoin("m")):])
		if got, err := openJoin(t, public, payload); !errors.Is(err, fast.ErrProtocol) {
			t.Errorf("%s is read as %+v, %v", name, got, err)
		}
	}
}

// binaryJoin is what a JOIN begins with.
func binaryJoin(name string) []byte {
	fixed := append([]byte{5, 192}, make([]byte, 12)...)
	return append(append(fixed, byte(len(name))), name+"\x00"...)
}

// openJoin opens a JOIN that has any payload.
func openJoin(t *testing.T, public, payload []byte) (fast.Joining, error) {
	t.Helper()
	datagram := secret.Joining(public).SealAfter(nil, fast.Head{Kind: fast.Join}, public, payload)
	j, _, err := secret.OpenJoin(head(t, datagram), datagram)
	return j, err
}

// reliability D 6: a JOIN is of who has its name, whoever has the group's key: the proof is of no use by another name's key, in
// another session, to another sender, of another member, or for anything else than what was said. However long that is,
// there is room for it.
func TestProofs(t *testing.T) {
	sender, member := private(t).PublicKey().Bytes(), private(t).PublicKey().Bytes()
	names, managers := strings.Repeat("n", fast.MaxMember), bytes.Repeat([]byte{7}, 32)
	key := fast.NameKey(managers, names)
	joins := fast.Joining{Heard: 1472, Buffer: 8 << 20, Have: fast.HaveUnknown, Name: names, LAN: names}
	refuses := joins
	refuses.Refused, refuses.Detail = fast.NoRoom, strings.Repeat("d", fast.MaxDetail+1)
	for _, said := range []fast.Joining{joins, refuses} {
		without := secret.JoinAs(9, member, said)
		said.Proof = secret.Prove(key, sender, member, said)
		datagram := secret.JoinAs(9, member, said)
		got, public, err := secret.OpenJoin(head(t, datagram), datagram)
		if err != nil || !secret.IsProven(key, sender, public, got) || len(datagram) != len(without) {
			t.Fatalf("%+v is no proof: %v", got, err)
		}
		if got, _, err := secret.OpenJoin(head(t, without), without); err != nil || secret.IsProven(key, sender, public, got) {
			t.Errorf("zeros are a proof: %v", err)
		}
		otherwise := got
		otherwise.Have++
		refused := got
		refused.Refused = fast.Refused
		for name, is := range map[string]bool{
			"another name's key":  secret.IsProven(fast.NameKey(managers, "m"), sender, public, got),
			"another secret's":    secret.IsProven(fast.NameKey(make([]byte, 32), names), sender, public, got),
			"another session":     fast.NewSecret(group, fast.Salt{9}).IsProven(key, sender, public, got),
			"another sender":      secret.IsProven(key, member, public, got),
			"another member":      secret.IsProven(key, sender, sender, got),
			"saying another word": secret.IsProven(key, sender, public, otherwise),
			"refusing instead":    secret.IsProven(key, sender, public, refused),
		} {
			if is {
				t.Errorf("it is a proof for %s", name)
			}
		}
	}
}

func TestPollsAndReports(t *testing.T) {
	poll := fast.Polled{Poll: 1, Passed: 2, Slot: 3 * time.Microsecond, Hold: time.Second, Members: 4, Every: 5, Turn: 6, Slowest: 7, Root: [32]byte{8}}
	got, err := fast.ParsePoll(poll.Append(nil))
	if diff := cmp.Diff(poll, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	report := fast.Reported{
		Poll: 1, Held: time.Millisecond, Seen: 3, Received: 2, Frontier: 4, State: fast.Failed, Reason: fast.NoRoom, Root: [32]byte{9},
		Wants: []fast.Want{{Block: 5, Run: 6}, {Block: 7, Need: 2, Missing: 1<<63 | 1<<1 | 1}},
	}
	read, err := fast.ParseReport(report.Append(nil))
	if diff := cmp.Diff(report, read); err != nil || diff != "" {
		t.Error(err, diff)
	}
	report.Wants = make([]fast.Want, 1000)
	for i := range report.Wants {
		report.Wants[i].Run = 1
	}
	if whole := len(report.Append(nil)) + fast.Overhead; whole > fast.MinDatagram {
		t.Errorf("a report has %d bytes", whole)
	}
}

func FuzzOpen(f *testing.F) {
	member := private(f)
	box := secret.Group()
	f.Add(box.Seal(nil, fast.Head{Kind: fast.Data}, []byte("x")), true)
	f.Add(box.Announce(1, salt, member.PublicKey().Bytes(), fast.Announcement{Sender: netip.MustParseAddrPort("10.1.2.3:7431"), Name: "x"}, 1232), true)
	f.Add(secret.JoinAs(1, member.PublicKey().Bytes(), fast.Joining{Heard: 1472, Name: "m"}), true)
	f.Add(secret.JoinAs(1, member.PublicKey().Bytes(), fast.Joining{Heard: 1472, Name: "m", Refused: fast.Refused, Detail: "no"}), true)
	f.Add(secret.Fence(1, fast.Fencing{Announcement: fast.Announcement{Sender: netip.MustParseAddrPort("10.1.2.3:7431"), Name: "x"}}), true)
	f.Fuzz(func(t *testing.T, datagram []byte, _ bool) {
		h, err := fast.ParseHead(datagram)
		if err != nil {
			return
		}
		_, _ = box.Open(nil, h, datagram)
		_, _ = fast.OpenAnnouncement(group, h, datagram)
		_, _, _ = secret.OpenJoin(h, datagram)
		_, _ = secret.OpenFence(h, datagram)
	})
}

// What a member sealed may be anything all the same.
func FuzzSealed(f *testing.F) {
	f.Add(fast.Polled{Every: 1}.Append(nil), uint8(fast.Poll))
	f.Add(fast.Reported{Wants: []fast.Want{{Run: 1}}}.Append(nil), uint8(fast.Report))
	f.Add(fast.AppendSeal(nil, 1, [32]byte{}), uint8(fast.Seal))
	f.Add(fast.AppendZero(nil, 1), uint8(fast.Zero))
	f.Add(fast.AppendWelcome(nil, 1472), uint8(fast.Welcome))
	f.Add(append(binaryJoin("m"), byte(fast.NoRoom), 2, 'n', 'o'), uint8(fast.Join))
	member := private(f).PublicKey().Bytes()
	f.Fuzz(func(t *testing.T, payload []byte, kind uint8) {
		if p, err := fast.ParsePoll(payload); err == nil {
			if again, err := fast.ParsePoll(p.Append(nil)); err != nil || again != p {
				t.Errorf("poll %+v is read as %+v, %v", p, again, err)
			}
		}
		if r, err := fast.ParseReport(payload); err == nil {
			if again, err := fast.ParseReport(r.Append(nil)); err != nil || !cmp.Equal(again, r) {
				t.Errorf("report %+v is read as %+v, %v", r, again, err)
			}
		}
		_, _, _ = fast.ParseSeal(payload)
		_, _ = fast.ParseBye(payload)
		_, _ = fast.ParseZero(payload)
		_, _ = fast.ParseWelcome(payload)
		for _, size := range []int{160, 400} {
			j, err := openJoin(t, member, append(payload[:min(len(payload), size):min(len(payload), size)], make([]byte, max(0, size-len(payload)))...))
			if err != nil {
				continue
			}
			datagram := secret.JoinAs(1, member, j)
			if again, _, err := secret.OpenJoin(head(t, datagram), datagram); err != nil || again != j {
				t.Errorf("JOIN %+v is read as %+v, %v", j, again, err)
			}
		}
		clear := append(append([]byte(nil), salt[:]...), member...)
		announced := secret.Group().SealAfter(nil, fast.Head{Kind: fast.Announce}, clear, payload)
		if len(announced) <= fast.MaxDatagram {
			_, _ = fast.OpenAnnouncement(group, head(t, announced), announced)
		}
	})
}
