// Package roster knows a gatherer's clients: who is attached, what each uploads and over which
// connections, and what it has been told. Its uploads are the stores that links put bytes into.
package roster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/groupcast/groupcast/internal/algo/window"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/internal/policy"
	wire "github.com/groupcast/groupcast/internal/wire/relay"
	"github.com/groupcast/groupcast/services/gatherer/sink"
)

// What is wrong with a request.
var (
	ErrSession    = errors.New("the session has ended: attach again")
	ErrUpload     = errors.New("there is no such upload: open it again")
	ErrName       = errors.New("the client cannot have this name")
	ErrNoName     = errors.New("no client can have this name")
	ErrLabels     = errors.New("the client says too much of itself")
	ErrRefused    = errors.New("there is no room for the client's minimum on the link: others have to leave first, or the policy has to change")
	ErrKept       = fmt.Errorf("there is no room for the client's minimum on the link while those may come back that were cut off: try again in up to %v", policy.PlaceFor)
	ErrCrowded    = errors.New("there are too many clients or uploads")
	ErrStored     = errors.New("the client has as many bytes here as it may: remove some, or raise maxStored in the policy")
	ErrUncounted  = errors.New("it is not known yet whether this fits beside what the client has here, as more comes meanwhile: try again")
	ErrUnfinished = errors.New("not all of it has come yet")
	ErrStopping   = errors.New("the gatherer stops: try again when it is back")
)

// Limits, so that no client can take what others need.
const (
	maxClients = 10_000
	maxUploads = 64 // of one client
)

// Env is what a roster needs of the world.
type Env struct {
	Log    *slog.Logger
	Dir    string // of the store: it has a directory for each client
	Policy *Agreed
	// Grace is how long a client that is gone keeps its uploads open.
	Grace time.Duration
	// Reserve is how many bytes of the disk are left free.
	Reserve uint64
	// Free returns how many bytes there is room for on a directory's disk; nil asks the kernel.
	Free func(dir string) (uint64, error)
	// Memory is how many bytes all windows may be together; zero is no bound.
	Memory int
	// Revoked says why a peer's certificate counts no more; nil revokes nobody.
	Revoked func(identity.Peer) error
	// Admit says why a peer may not come in anew, also if it is not known who was revoked; nil lets in whoever was not.
	Admit func(identity.Peer) error
	// Groups returns which groups a member may join; nil knows of none.
	Groups func(member string) ([]string, error)
	// Retention says how long what came stays.
	Retention sink.Retention
	// Finished is called with how long an upload took when it is finished; it may be nil.
	Finished func(took time.Duration)
	// Established is called with how long a data connection took until it was let in; it may be nil.
	Established func(took time.Duration)
	// Exec is run for each file that is finished; empty runs nothing.
	Exec []string
	// ExecTime is how long Exec may take for a file; zero is no bound.
	ExecTime time.Duration
}

// Roster are the clients of a gatherer.
type Roster struct {
	Env

	mu       sync.Mutex // before that of any upload
	clients  map[string]*Client
	sessions map[string]*Session
	uploads  map[wire.DeliveryID]*Upload
	openings map[place]*opening
	ending   map[place]*Upload // forgotten, and not closed yet
	finished remembered
	register *register
	full     bool           // the disk has no room beyond the reserve
	fits     bool           // all that was asked for does, for which some of the reserve may be used
	room     room           // beyond it
	scarce   bool           // windows are cut to the memory there is
	lastID   uint64         // of a connection
	observed time.Time      // when the controller asked last; at first, when the roster was made
	running  sync.WaitGroup // what uploads do, and what is run for them

	life      context.Context // of what goes on even if the client that asked for it is gone
	end       context.CancelFunc
	readers   *readers
	streaming *readers
	commands  commands
	due       []due // that an earlier process has left
	openSink  func(ctx context.Context, dir string, spec sink.Spec) (sink.Sink, error)
	execute   func(client, path, file string) (said []byte, err error) // the command for a finished file
	uncounted chan struct{}                                            // holds one while a client's bytes are to be counted because of a new policy
	stored    func(dir string) (bytes, unfinished uint64, err error)
}

// New returns a roster without clients. From the register it knows which processes clients were before.
func New(env Env) (*Roster, error) {
	var err error
	if env.Dir, err = filepath.Abs(env.Dir); err != nil { // told leaves it out of what clients are told
		return nil, fmt.Errorf("find the store: %w", err)
	}
	register, err := openRegister(env.Dir)
	if err != nil {
		return nil, err
	}
	left, err := readDue(env.Dir, len(env.Exec) > 0)
	if err != nil {
		return nil, err
	}
	r := &Roster{
		Env: env, clients: make(map[string]*Client), sessions: make(map[string]*Session), uploads: make(map[wire.DeliveryID]*Upload),
		openings: make(map[place]*opening), ending: make(map[place]*Upload), finished: remembered{known: make(map[wire.DeliveryID]finished)},
		readers: newReaders(), streaming: newReaders(), commands: newCommands(), register: register, observed: time.Now(), due: left, openSink: sink.Open, stored: sink.Stored, uncounted: make(chan struct{}, 1),
	}
	if r.Free == nil {
		r.Free = freeOn
	}
	if r.Revoked == nil {
		r.Revoked = func(identity.Peer) error { return nil }
	}
	if r.Admit == nil {
		r.Admit = r.Revoked
	}
	if r.Groups == nil {
		r.Groups = func(string) ([]string, error) { return nil, nil }
	}
	if r.Finished == nil {
		r.Finished = func(time.Duration) {}
	}
	if r.Established == nil {
		r.Established = func(time.Duration) {}
	}
	r.life, r.end = context.WithCancel(context.Background())
	r.execute = r.runOnce
	return r, nil
}

// Client is a client that is attached, or was.
type Client struct {
	Name    string
	Since   time.Time
	Share   policy.Share
	labels  labelling
	rated   rated
	session *Session      // nil while it is not attached
	by      identity.Peer // the peer that attached last
	left    time.Time
	parted  bool               // it left by itself, and was not cut off
	uploads map[string]*Upload // by path
	arrived arrived
	order   directive
	queued  bool      // others have to leave first
	waits   time.Time // when it came, or last went on after it gave up its place, by which it has its turn: a session that breaks for a moment makes no difference
	yielded bool      // its place went to another; when it goes on, it waits for one
	brought time.Time // when it was let in, was last kept from bringing anything, or last brought something in an upload that has ended
	waiting uint64
	allowed allowance
	paced   pace
	part    window.Rate // of the link, where no window is that small; else zero. Until that is known, it is all of what the policy says
	// concluding is how many uploads have ended whose client is not told so yet, as commands wait.
	concluding int
	tooMany    excess    // of connections of all uploads together, beyond its share
	noRoom     time.Time // when the disk last had no room for one of its files
	seen       Seen
	looked     time.Time // when the controller last observed it
}

// directive is what a client is told.
type directive struct {
	connections int
	paused      string
}

// Why a client is to send nothing.
const (
	Queued   = "queued"          // others have to leave first
	DiskFull = "disk_full"       // the gatherer's disk has no room
	TooMuch  = "stored_too_much" // the client has as many bytes here as it may
)

// Session is a client's attachment.
type Session struct {
	ID     string
	Peer   identity.ID
	isNew  bool // its process is not the one that the client was before
	client *Client
	roster *Roster
	ended  string        // why; empty while it goes on
	change chan struct{} // closed when there is something to tell
}

// Why a session ends.
const (
	Fenced   = "fenced"   // the same client attached again
	Left     = "left"     // the client left, or was cut off: nobody is there to be told
	Stopping = "stopping" // the gatherer stops
	Revoked  = "revoked"  // the identity that attached was revoked
	Refused  = "refused"  // it waited, and places are refused now: when it attaches again it is told why
)

// Process tells the processes of one client apart. Incarnation is the same for all sessions of a process; Returns says
// that it has had one already.
type Process struct {
	Incarnation string // empty if the client did not say
	Returns     bool
}

// Attach makes a client's session. An earlier one of the same client ends. A process that comes back after another
// took its place gets a session that has ended: the newer goes on.
func (r *Roster) Attach(name string, labels map[string]string, caller identity.Peer, by Process) (*Session, error) {
	session, err := r.attach(name, labels, caller, by)
	if err != nil || !session.isNew {
		return session, err
	}
	// Nobody else waits for that: the disk may not answer for long.
	if err := r.register.write(); err != nil {
		r.Log.Warn("which process a client is could not be noted: a restart forgets it", "client", session.client.Name, "error", err)
	}
	return session, nil
}

func (r *Roster) attach(name string, labels map[string]string, caller identity.Peer, by Process) (*Session, error) {
	peer := caller.ID
	name, err := nameFor(name, peer)
	if err != nil {
		return nil, err
	}
	said, err := label(labels, peer)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.admits(name, caller, by); err != nil {
		return nil, err
	}
	if err := r.isFree(name, peer); err != nil {
		return nil, err
	}
	if len(r.clients) >= maxClients && r.clients[name] == nil {
		return nil, fmt.Errorf("%w: %d clients", ErrCrowded, len(r.clients))
	}
	rules, _ := r.Policy.Get()
	groups, err := r.groupsOf(name, peer)
	if err != nil {
		return nil, err
	}
	share := rules.ShareFor(policy.Client{Name: name, Labels: said.counted(rules), Groups: groups})
	client := r.clients[name]
	if r.register.isOther(name, roleOf(peer), by) {
		if client == nil {
			client = &Client{Name: name}
		}
		return &Session{ID: rand.Text(), Peer: peer, client: client, roster: r, ended: Fenced, change: make(chan struct{})}, nil
	}
	now := time.Now()
	wasHere := client.isHere(now)
	idle := wasHere && client.yielded // as before, until it sends something
	queued, err := r.comeIn(rules, name, share, now)
	if err != nil {
		return nil, err
	}
	if client == nil {
		client = &Client{Name: name, uploads: make(map[string]*Upload), order: directive{connections: 1}, part: window.Rate(rules.Link)}
		r.clients[name] = client
	} else if client.session != nil {
		client.session.end(Fenced)
	}
	if !wasHere {
		client.waits = now
	}
	if !idle {
		client.brought = now
	}
	client.labels, client.Share, client.Since = said, share, now
	client.rated = rated{} // its labels may be others
	client.queued, client.yielded, client.parted, client.by = queued, idle, false, caller
	isNew := r.register.enter(name, roleOf(peer), by)
	client.repace()
	client.session = &Session{ID: rand.Text(), Peer: peer, isNew: isNew, client: client, roster: r, change: make(chan struct{})}
	r.sessions[client.session.ID] = client.session
	for _, upload := range client.uploads {
		upload.fence()
	}
	r.retell(client)
	r.Log.Info("client attached", "client", name, "peer", peer.String(), "paused", client.order.paused)
	return client.session, nil
}

// retell tells a client whether it may send, if that has changed.
func (r *Roster) retell(client *Client) {
	client.tell(func(order *directive) {
		switch {
		case client.queued:
			order.paused = Queued
		case r.full && !r.mayGoOn(client), client.lacksRoom():
			order.paused = DiskFull
		case client.allowed.isShort() && !client.hasPart():
			order.paused = TooMuch
		default:
			order.paused = ""
		}
	})
}

// tell changes what a client is told, and lets its uploads know.
func (c *Client) tell(change func(*directive)) {
	before := c.order
	change(&c.order)
	if c.order == before {
		return
	}
	if c.session != nil {
		c.session.changed()
	}
	for _, upload := range c.uploads {
		upload.grant()
	}
}

func (s *Session) changed() {
	close(s.change)
	s.change = make(chan struct{})
}

// end ends the session, with the roster locked.
func (s *Session) end(reason string) {
	if s.ended == "" {
		s.ended = reason
		delete(s.roster.sessions, s.ID)
		s.changed()
	}
}

// Told is what a client is told now.
type Told struct {
	Connections int
	Paused      string
	Ended       string
	Changed     <-chan struct{} // closed when that changes
}

// Told returns what the client is told now.
func (s *Session) Told() Told {
	s.roster.mu.Lock()
	defer s.roster.mu.Unlock()
	return Told{Connections: s.client.perUpload(), Paused: s.client.order.paused, Ended: s.ended, Changed: s.change}
}

// perUpload returns how many connections each upload should have.
func (c *Client) perUpload() int { return max(1, c.order.connections/max(1, c.active())) }

// active returns how many uploads have not come whole.
func (c *Client) active() (active int) {
	for _, upload := range c.uploads {
		if !upload.isWhole() {
			active++
		}
	}
	return active
}

// Report takes what a client says of itself.
func (s *Session) Report(waiting uint64) {
	s.roster.mu.Lock()
	defer s.roster.mu.Unlock()
	s.client.waiting = waiting
}

// Leave ends the session of a client that is done. Its uploads stay open for a while, in case it comes back.
func (s *Session) Leave() { s.leave(true) }

// CutOff ends the session of a client that may come back in a moment: its place is kept for a moment, too.
func (s *Session) CutOff() { s.leave(false) }

func (s *Session) leave(parted bool) {
	s.roster.mu.Lock()
	defer s.roster.mu.Unlock()
	if s.client.session == s {
		s.client.session, s.client.left, s.client.parted = nil, time.Now(), parted
		s.roster.Log.Info("client left", "client", s.client.Name, "cut_off", !parted)
	}
	s.end(Left)
}

// clientOf returns the client whose session it is.
func (r *Roster) clientOf(session string, peer identity.ID) (*Client, error) {
	if found := r.sessions[session]; found != nil && found.Peer == peer {
		return found.client, nil
	}
	return nil, ErrSession
}

// sweepEvery is how often the roster looks which clients are gone, and how full the disk is.
const sweepEvery = time.Second

// Run does what is due until ctx is done, and then ends all uploads. Nothing in it waits for a disk, as paced clients would wait with it.
func (r *Roster) Run(ctx context.Context) error {
	r.running.Go(func() { r.keepRegister(ctx) })
	r.running.Go(func() { r.runDue(r.due) })
	r.running.Go(func() { r.keepCounted(ctx) })
	ticker, pacing := time.NewTicker(sweepEvery), time.NewTicker(pacePiece)
	defer ticker.Stop()
	defer pacing.Stop()
	r.lookAtDisk()
	for {
		select {
		case <-ctx.Done():
			r.stop()
			return nil
		case <-pacing.C:
			r.drawAll()
		case now := <-ticker.C:
			r.sweep(now)
			r.lookAtDisk()
		}
	}
}

// keepRegister makes durable which processes clients are, until ctx is done. A failure is logged once, and again only after a
// success.
func (r *Roster) keepRegister(ctx context.Context) {
	for before := error(nil); pause.For(ctx, sweepEvery); {
		err := r.register.save()
		if err != nil && before == nil {
			r.Log.Warn("which processes clients are could not be made durable: it is tried again", "error", err)
		}
		before = err
	}
}

// drawAll asks paced clients for more. Uploads also do so themselves after a commit, but on a busy disk that takes long.
func (r *Roster) drawAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, client := range r.clients {
		if !client.paced.bounds() {
			continue
		}
		for _, upload := range client.uploads {
			upload.askForMore()
		}
	}
}

// Stopping is closed when the gatherer stops.
func (r *Roster) Stopping() <-chan struct{} { return r.life.Done() }

// stop ends all sessions and uploads.
func (r *Roster) stop() {
	r.end()
	r.mu.Lock()
	for _, upload := range r.uploads {
		upload.stop()
	}
	for _, client := range r.clients {
		if client.session != nil {
			client.session.end(Stopping)
		}
	}
	r.mu.Unlock()
	r.running.Wait()
	if err := r.register.close(); err != nil {
		r.Log.Warn("which processes clients are could not be made durable", "error", err)
	}
}
