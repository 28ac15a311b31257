package sim

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/groupcast/groupcast/e2e/links"
	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/internal/daemon"
	"github.com/groupcast/groupcast/internal/simnet"
	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/agent"
	"github.com/groupcast/groupcast/services/manager"
)

const (
	group = "g"
	// startTime is how long a service may take to be ready, and to stop.
	startTime = 30 * time.Second
)

// world is one run: the network, and the programs on its hosts.
type world struct {
	testing.TB
	scenario
	network *simnet.Network
	dir     string
	journal *journal
	book    links.Book
	log     *slog.Logger
	began   time.Time
	healed  time.Time // when the last fault is over

	operator  *sdk.Client
	stopStore func() // of several managers
	programs  map[string]*program
	metrics   sync.Map // of agents: *prometheus.Registry by name
	sending   *sdk.Session
	sender    sdk.Config             // whose session that is
	planted   map[string]fs.FileInfo // earlier versions of what is sent, at members
	tape      *tape                  // what is written on links is noted, unless it is nil
	leaves    atomic.Bool            // a receiver that is stopped leaves its group
	welcome   atomic.Int64           // how often the idler was by those that are to feed it
}

// program is what runs on a host, in one life after another.
type program struct {
	name string
	run  func(ctx context.Context, on *life) error

	mu    sync.Mutex
	stop  context.CancelFunc
	ended chan struct{} // closed when this life is over
	on    *life
}

// life is a process's own access to its host. It ends with the process: what that leaves running can reach nobody.
type life struct {
	*simnet.Host
	over atomic.Bool
	tape *tape
}

func (l *life) Listen(_, address string) (net.Listener, error) {
	if l.over.Load() {
		return nil, net.ErrClosed
	}
	listener, err := l.Host.Listen(address)
	return &listening{listener, l.tape}, err
}

// listening is a listener whose connections may be recorded.
type listening struct {
	net.Listener
	tape *tape
}

func (l *listening) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.tape.wrap(conn), nil
}

func (l *life) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if l.over.Load() {
		return nil, net.ErrClosed
	}
	conn, err := l.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return l.tape.wrap(conn), nil
}

// newWorld starts the manager and makes the group.
func newWorld(t testing.TB, s scenario, dir string) *world {
	w := &world{TB: t, scenario: s, network: simnet.New(s.seed), dir: dir, journal: newJournal(), programs: make(map[string]*program), planted: make(map[string]fs.FileInfo), began: time.Now()}
	w.log = slog.New(slog.NewTextHandler(io.MultiWriter(w.journal, &w.book), &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: w.sinceStart}))
	w.network.Trace(&w.journal.network)
	for _, host := range slices.Concat(s.hosts(), s.others, []string{storeHost, "operator"}) {
		w.network.Host(host)
	}
	if len(s.others) > 0 {
		w.startStore()
	}
	w.startManager(managerHost) // it makes the CA of all
	access := filepath.Join(dir, "admin.yaml")
	w.await("a manager is ready", func() bool { _, err := os.Stat(access); return err == nil })
	for _, name := range s.others {
		w.startManager(name)
	}
	config, err := uplink.ReadConfig(access)
	w.must(err)
	config.Endpoints = s.endpoints()
	operator, err := sdk.Dial(config, sdk.WithDialer(w.host("operator")))
	w.must(err)
	w.operator = operator
	w.await("a manager leads", func() bool {
		_, err := operator.CreateGroup(context.Background(), group, s.policy)
		return err == nil
	})
	return w
}

func (w *world) sinceStart(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Duration("t", a.Value.Time().Sub(w.began).Round(time.Microsecond))
	}
	return a
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) await(what string, holds func() bool) {
	w.Helper()
	for end := time.Now().Add(startTime); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			w.Fatalf("waited too long until %s", what)
		}
	}
}

func (w *world) host(name string) *life { return &life{Host: w.network.Host(name), tape: w.tape} }

// start runs a program on the host of its name.
func (w *world) start(name string, run func(ctx context.Context, on *life) error) {
	p := &program{name: name, run: run}
	w.programs[name] = p
	w.begin(p)
}

func (w *world) begin(p *program) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	on := w.host(p.name)
	p.stop, p.ended, p.on = stop, ended, on
	go func() {
		defer close(ended)
		if err := p.run(ctx, on); err != nil && ctx.Err() == nil {
			w.Errorf("%s ended with: %v", p.name, err)
		}
	}()
}

// killed ends a host's program; its connections are already gone.
func (w *world) killed(host string) {
	p := w.programs[host]
	p.mu.Lock()
	defer p.mu.Unlock()
	p.on.over.Store(true)
	p.stop()
}

// restarted runs the host's program again, once its former life is over.
func (w *world) restarted(host string) {
	p := w.programs[host]
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.isOver(p) {
		w.begin(p)
	}
}

func (w *world) isOver(p *program) bool {
	select {
	case <-p.ended:
		return true
	case <-time.After(startTime):
		w.Errorf("%s does not stop", p.name)
		return false
	}
}

// stopAll ends all programs in order: those that serve others are ended last.
func (w *world) stopAll() {
	if w.stopStore != nil {
		defer w.stopStore()
	}
	for _, name := range slices.Concat([]string{"idle"}, w.hosts()[1:], w.managers()) {
		if p := w.programs[name]; p != nil {
			p.stop()
			w.isOver(p)
		}
	}
}

func (w *world) env(name string, on *life, metrics prometheus.Registerer) daemon.Env {
	admin, err := daemon.ListenAdmin(daemon.AdminConfig{})
	w.must(err)
	log := w.log.With("host", name)
	if slices.Contains(w.managers(), name) {
		log = slog.New(atInfo{log.Handler()}) // etcd says a lot
	}
	return daemon.Env{Log: log, Metrics: metrics, Admin: admin, Network: on, Stdout: io.Discard}
}

// atInfo drops what is less severe than Info.
type atInfo struct{ slog.Handler }

func (h atInfo) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (h atInfo) WithAttrs(attrs []slog.Attr) slog.Handler { return atInfo{h.Handler.WithAttrs(attrs)} }

// startManager runs a manager. If it ends because it cannot reach its store, it is run again, as by a supervisor.
func (w *world) startManager(name string) {
	w.start(name, func(ctx context.Context, on *life) error {
		for {
			err := w.runManager(ctx, on, name)
			if err == nil || ctx.Err() != nil || len(w.others) == 0 {
				return err
			}
			w.log.Info("the manager ended", "host", name, "error", err)
			time.Sleep(time.Second)
		}
	})
}

func (w *world) runManager(ctx context.Context, on *life, name string) error {
	config := manager.Defaults()
	config.Name, config.GRPC.Listen = name, name+":7400"
	config.Store.DataDir, config.Identity.CADir = filepath.Join(w.dir, "store"), filepath.Join(w.dir, "ca")
	if len(w.others) > 0 {
		config.Store.Endpoints = []string{"http://" + storeHost + storePort}
	}
	config.Admin.File = filepath.Join(w.dir, "admin.yaml")
	config.StopWait = daemon.Duration(time.Second)
	return manager.Run(ctx, w.env(name, on, prometheus.NewRegistry()), config)
}

// enroll gives a program an identity, and returns the configuration that uses it.
func (w *world) enroll(role, name string) sdk.Config {
	w.Helper()
	token := sdk.Token{Role: role, Name: name}
	if role == "member" {
		token.Groups = []string{group}
	}
	text, _, err := w.operator.CreateToken(context.Background(), token)
	w.must(err)
	config := sdk.Config{
		Endpoints: w.endpoints(), TrustDomain: sdk.DefaultTrustDomain,
		CredentialsDir: filepath.Join(w.dir, name, "credentials"), Renew: true,
	}
	_, err = sdk.Enroll(context.Background(), config, text, sdk.WithDialer(w.host(name)))
	w.must(err)
	return config
}

func (w *world) startAgent(at place) {
	identity := w.enroll("agent", at.name)
	w.start(at.name, func(ctx context.Context, on *life) error { return w.runAgent(ctx, on, at, identity) })
}

func (w *world) runAgent(ctx context.Context, on *life, at place, identity sdk.Config) error {
	metrics := prometheus.NewRegistry()
	w.metrics.Store(at.name, metrics)
	config := agent.Defaults()
	config.Managers, config.CredentialsDir = identity.Endpoints, identity.CredentialsDir
	config.Node, config.Zone, config.Data.Listen = at.node, at.zone, at.name+":7410"
	config.Cache.Dir, config.Cache.Bytes = filepath.Join(w.dir, at.name, "cache"), bytesize.Size(at.cache)
	config.Cache.Reserve = 0 // it makes no difference how full this machine's disk is
	config.Data.LeastStripes = max(1, w.stripes)
	err := agent.Run(ctx, w.env(at.name, on, metrics), config)
	w.checkEnded(at.name, metrics)
	return err
}

// startRelay makes a receiving member an agent as well, until stop is called.
func (w *world) startRelay(ctx context.Context, on *life, at place, session *sdk.Session) (stop func(), err error) {
	if !at.relays() {
		return func() {}, nil
	}
	asking, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	identity, err := session.RelayAccess(asking, filepath.Join(w.dir, at.name, "relay"))
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		if err := w.runAgent(ctx, on, at, identity); err != nil {
			w.log.Info("the relay ended", "host", at.name, "error", err)
		}
	})
	return func() { end(); running.Wait() }, nil
}

// startReceiver runs a program that joins and receives, and does so again when its session ends.
func (w *world) startReceiver(at place) {
	w.startMember(at, func(ctx context.Context, on *life, client *sdk.Client) error {
		for ctx.Err() == nil {
			if err := w.receive(ctx, on, client, at); err != nil {
				w.log.Debug("joining failed", "host", at.name, "error", err)
				time.Sleep(time.Second / 2)
			}
		}
		return nil
	})
}

// startMember runs a member's program.
func (w *world) startMember(at place, run func(ctx context.Context, on *life, client *sdk.Client) error) {
	identity := w.enroll("member", at.name)
	w.start(at.name, func(ctx context.Context, on *life) error {
		client, err := sdk.Dial(identity, sdk.WithDialer(on), sdk.WithLog(w.log.With("host", at.name)))
		if err != nil {
			return err
		}
		defer client.Close()
		return run(ctx, on, client)
	})
}

// receive joins, relays if the place does, and receives until the session ends.
func (w *world) receive(ctx context.Context, on *life, client *sdk.Client, at place) error {
	session, err := join(ctx, client, at, sdk.Receive)
	if err != nil {
		return err
	}
	defer func() {
		if w.leaves.Load() {
			w.must(session.Leave(context.Background()))
		}
		session.Close()
	}()
	stop, err := w.startRelay(ctx, on, at, session)
	if err != nil {
		return err
	}
	defer stop()
	options := sdk.ReceiveOptions{Into: w.into(at.name), Begun: func(sdk.Incoming) { w.tape.say(at.name, "", "is told to receive from its agent") }}
	for arrived, err := range session.Receive(ctx, options) {
		w.log.Debug("arrived", "host", at.name, "name", arrived.Name, "error", arrived.Err, "ended", err)
		if err == nil && arrived.Err == nil {
			w.checkWhole(at.name, arrived.Name)
			w.tape.say(at.name, "", "has the object under its name, verified and synced; its receipt is taken")
		}
	}
	return nil
}

func join(ctx context.Context, client *sdk.Client, at place, role sdk.Role) (*sdk.Session, error) {
	trying, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return client.Join(trying, sdk.Join{Group: group, Name: at.name, Node: at.node, Roles: []sdk.Role{role}})
}

// into returns the directory in which a member receives.
func (w *world) into(name string) string { return filepath.Join(w.dir, name, "into") }

// startSender runs a program that joins and keeps its session; the test sends with it.
func (w *world) startSender() {
	identity := w.enroll("member", senderHost)
	w.sender = identity
	joined := make(chan *sdk.Session, 1)
	w.start(senderHost, func(ctx context.Context, on *life) error {
		client, err := sdk.Dial(identity, sdk.WithDialer(on), sdk.WithLog(w.log.With("host", senderHost)))
		if err != nil {
			return err
		}
		defer client.Close()
		session, err := join(ctx, client, place{name: senderHost, node: senderHost}, sdk.Send)
		if err != nil {
			return nil // it was killed before: nothing more will be sent
		}
		defer session.Close()
		select {
		case joined <- session:
		default:
		}
		<-ctx.Done()
		return nil
	})
	w.sending = <-joined
}

// populate starts agents and members, and waits until the manager knows all of them.
func (w *world) populate() {
	w.Helper()
	for _, at := range w.agents {
		w.startAgent(at)
	}
	if w.idler != nil {
		w.startIdler(*w.idler)
	}
	for _, at := range w.receivers {
		w.startReceiver(at)
	}
	w.startSender()
	w.await("all are there", func() bool {
		status, err := w.operator.Status(context.Background())
		return err == nil && status.AgentsOnline == w.relaying() && status.Members == len(w.receivers)+1
	})
}

// write creates what is sent, and returns its path.
func (w *world) write(p parcel) string {
	random := rand.NewChaCha8([32]byte{byte(w.seed), byte(w.seed >> 8), byte(w.seed >> 16), p.name[len(p.name)-1]})
	path := filepath.Join(w.dir, senderHost, p.name)
	if p.files == 0 {
		w.writeFile(path, p.size, random)
		return path
	}
	for i := range p.files {
		w.writeFile(filepath.Join(path, fmt.Sprintf("d%d", i%2), fmt.Sprintf("f%d", i)), p.size/p.files, random)
	}
	return path
}

func (w *world) writeFile(path string, size int, random io.Reader) {
	content := make([]byte, size)
	_, _ = random.Read(content)
	w.must(os.MkdirAll(filepath.Dir(path), 0o755))
	w.must(os.WriteFile(path, content, 0o644))
}
