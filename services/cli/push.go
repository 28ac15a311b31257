package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/internal/printable"
	"github.com/groupcast/groupcast/sdk"
)

// push is what the push command was asked for.
type push struct {
	join      sdk.Join
	options   sdk.SendOptions
	stream    bool
	datagrams bool
	changes   bool
	keeps     bool // it was asked to be kept for members that join late
	parity    parity
	wait      int
	waitLimit time.Duration
	rate      bytesize.Size
	floor     bytesize.Size
	lag       bytesize.Size
}

func (a *app) pushCommand() *cobra.Command {
	p := &push{join: sdk.Join{Roles: []sdk.Role{sdk.Send}}}
	command := &cobra.Command{
		Use: "push FILE|DIR|- --group GROUP", Short: "Deliver a file, a directory or standard input to the members of a group", Args: cobra.ExactArgs(1),
		Long: `Delivers a file, or a directory as one object, to all members of a group that
receive, and says who has it. Members that are joined when it begins decide the
outcome: the exit status is 0 when each of them has it, verified, 3 when some do, 1 when
none does, and 4 when nothing has begun: nobody receives, or no agent is online.
Interrupted, it cancels the delivery. With --changes, members that have a directory in an
earlier version are sent what they lack of it. Symbolic links are not followed: an object with one
in it is refused before anything is sent.

With -, standard input is read to its end and delivered as a file; with --stream it
is delivered as it comes, and with --datagrams besides in datagrams: members get what is
fresh, and what is lost is counted and not sent again. A stream ends well when its source
does: end tail -f by its process id; an interrupt cancels the delivery.`,
		Example: "  groupcast push model.bin --group models\n  groupcast push release/ --group edge --ack received --deadline 10m\n  groupcast push dataset/ --group models --changes\n  tail -f log | groupcast push - --stream --group watchers\n  sensor | groupcast push - --stream --datagrams --fresh 200ms --parity 10+2 --group watchers",
	}
	flags := command.Flags()
	flags.StringVar(&p.join.Group, "group", "", "group to deliver to")
	flags.StringVar(&p.join.Name, "as", "", "name of the sender in the group (one made up, for a member NAME.push-…, for a pod of its account NAME.POD-…)")
	flags.StringVar(&p.join.Node, "node", thisNode(), "machine that the sender runs on ("+nodeVariable+")")
	flags.StringVar(&p.options.Name, "name", "", "what the object is called at the receivers (its own name)")
	flags.StringVar((*string)(&p.options.ControlMode), "mode", "", usageMode+" (the group's)")
	flags.StringVar((*string)(&p.options.AckLevel), "ack", "", usageAck+" (the group's; of a stream received)")
	flags.StringVar((*string)(&p.options.SlowMember.Action), "slow", "", usageSlow+" (the group's)")
	addSize(flags, &p.floor, "slow-floor", "with pace: bytes per second below which a member is given up (the group's)")
	addSize(flags, &p.lag, "slow-lag", "with evict: bytes that a member may lag behind, as 64MiB (the group's)")
	flags.DurationVar(&p.options.SlowMember.LagTime, "slow-lag-time", 0, "with evict: time that a member may lag behind, as 30s (the group's)")
	flags.DurationVar(&p.options.LatencyBound, "latency-bound", 0, "latency from sender to member within which its tree begins, as 50ms; the smaller of it and the group's holds (the group's)")
	flags.DurationVar(&p.options.Deadline, "deadline", 0, "how long the delivery may take once it has begun, --wait not counted (the group's, but not for a stream)")
	flags.IntVar(&p.wait, "wait", 0, "wait until so many members receive before it begins (it does not wait)")
	flags.DurationVar(&p.waitLimit, "wait-limit", 0, "with --wait: how long it waits at most; then nothing is sent (no limit)")
	addSize(flags, &p.rate, "rate", "bytes per second that it sends at most, as 100MB, 4096 at least; agents pass on what they have as fast as their links take it (no limit)")
	flags.DurationVar(&p.options.Keep, "keep", 0, "how long agents hold it for members that join late, 24h at most; 0s does not hold it (the group's, or 10m)")
	flags.StringVar((*string)(&p.options.Congestion), "congestion", "", "congestion control of its connections: cubic, bbr or reno (the group's, or the machine's)")
	flags.BoolVar(&p.changes, "changes", false, "of a directory that members have under this name already, send each only what it lacks; DIR is read twice, and who joins after the end gets nothing of it")
	flags.BoolVar(&p.stream, "stream", false, "deliver standard input as it comes, without a known end")
	flags.BoolVar(&p.datagrams, "datagrams", false, fmt.Sprintf("with --stream: what is read at once, up to %d bytes, is a datagram", sdk.MaxDatagram))
	flags.DurationVar(&p.options.Datagrams.Fresh, "fresh", 0, "with --datagrams: how old one may be when a member gets it, as 200ms, 1m at most (no bound)")
	flags.Var(&p.parity, "parity", "with --datagrams: as 10+2, two of parity for every ten, so that two of these twelve may be lost on each link (none)")
	sets(flags, map[string]string{
		"name": "spec.name", "mode": "spec.control_mode", "ack": "spec.ack_level", "slow": "spec.slow_member", "slow-floor": "spec.slow_member.floor_bytes_per_second",
		"slow-lag": "spec.slow_member.lag_bytes", "slow-lag-time": "spec.slow_member.lag_time", "latency-bound": "spec.latency_bound", "deadline": "spec.deadline", "rate": "spec.max_bytes_per_second",
		"keep": "spec.keep", "congestion": "spec.congestion", "fresh": "spec.datagrams.fresh", "parity": "spec.datagrams.parity_data",
	})
	sets(flags, map[string]string{"latency-bound": "latency bound", "deadline": "deadline", "keep": "keep", "slow-lag-time": "lag time", "fresh": "fresh"}) // as the SDK names them
	if err := command.MarkFlagRequired("group"); err != nil {
		panic("cli: " + err.Error())
	}
	command.RunE = func(command *cobra.Command, args []string) error {
		p.take(command.Flags())
		if err := p.check(args[0]); err != nil {
			return usageError{err}
		}
		outlastReaders()
		return a.stay(command, func(ctx context.Context, client *sdk.Client) error {
			return a.push(ctx, client, p, args[0])
		})
	}
	return command
}

// take takes over flags that are not options as they are.
func (p *push) take(flags *pflag.FlagSet) {
	p.keeps = p.options.Keep > 0
	p.options.Keep = keep(flags, p.options.Keep)
	slow := &p.options.SlowMember
	p.options.MaxBytesPerSecond, slow.FloorBytesPerSecond, slow.LagBytes = uint64(p.rate), uint64(p.floor), uint64(p.lag)
	p.options.Datagrams.ParityData, p.options.Datagrams.ParityShards = p.parity.data, p.parity.shards
}

// check refuses flags that contradict each other, or what is to be sent.
func (p *push) check(what string) error {
	slow := p.options.SlowMember
	lags := slow.LagBytes > 0 || slow.LagTime > 0
	switch {
	case p.changes && what == "-":
		return errors.New("--changes is for a directory, not for standard input")
	case p.stream && what != "-":
		return errors.New("--stream needs - for standard input")
	case p.datagrams && !p.stream:
		return errors.New("--datagrams needs --stream")
	case !p.datagrams && (p.options.Datagrams.Fresh != 0 || p.parity != parity{}):
		return errors.New("--fresh and --parity need --datagrams")
	case p.datagrams && (slow != (sdk.SlowMember{}) || p.options.Congestion != ""):
		return errors.New("--slow and --congestion are not for --datagrams: each link goes at the pace of TFRC, and who is slow holds up nobody")
	case p.wait < 0:
		return errors.New("--wait is a number of members")
	case p.waitLimit < 0 || p.waitLimit > 0 && p.wait == 0:
		return errors.New("--wait-limit bounds what --wait takes")
	case slow.Action != "" && slow.Action != sdk.Pace && slow.FloorBytesPerSecond > 0:
		return fmt.Errorf("--slow-floor is for --slow pace, and not for %s", slow.Action)
	case slow.Action != "" && slow.Action != sdk.Evict && lags:
		return fmt.Errorf("--slow-lag and --slow-lag-time are for --slow evict, and not for %s", slow.Action)
	}
	return p.options.Check()
}

func (a *app) push(ctx context.Context, client *sdk.Client, p *push, what string) error {
	source := what
	isKept := what == "-" && !p.stream
	if isKept || p.changes {
		if err := a.checkGroup(ctx, client, p.join.Group); err != nil {
			return err
		}
	}
	if isKept {
		var err error
		var remove func()
		if source, remove, err = keepInput(ctx, p); err != nil {
			return err
		}
		defer remove()
	}
	if err := a.nameSender(ctx, client, &p.join); err != nil {
		return err
	}
	changes, err := a.openChanges(ctx, p, source)
	if err != nil {
		return err
	}
	session, err := a.joinToSend(ctx, client, p)
	if err != nil {
		return err
	}
	defer a.leave(ctx, session)
	out, err := a.send(ctx, client, session, p, changes, source)
	if err != nil {
		return err
	}
	return a.follow(ctx, client, p, out)
}

// send begins the delivery, of what was opened already or is opened now. Looking at all that is sent takes as long as it takes; beginning is
// a call, with its time limit.
func (a *app) send(ctx context.Context, client *sdk.Client, session *sdk.Session, p *push, opened *sdk.Source, what string) (*sdk.Outgoing, error) {
	if !p.stream && opened == nil {
		var err error
		if opened, err = sdk.OpenSource(ctx, what); err != nil {
			return nil, err
		}
	}
	beginning, cancel := a.within(ctx, client)
	defer cancel()
	switch {
	case p.datagrams:
		return session.SendDatagrams(beginning, os.Stdin, p.options)
	case p.stream:
		return session.SendStream(beginning, os.Stdin, p.options)
	}
	return session.SendSource(beginning, opened, p.options)
}

// joinToSend joins, and waits until enough members receive. That may take hours: if the session expires meanwhile, it joins
// again.
func (a *app) joinToSend(ctx context.Context, client *sdk.Client, p *push) (*sdk.Session, error) {
	session, err := a.join(ctx, client, p.join)
	if err != nil || p.wait == 0 {
		return session, err
	}
	waiting := ctx
	if p.waitLimit > 0 {
		var stop func()
		waiting, stop = context.WithTimeout(ctx, p.waitLimit)
		defer stop()
	}
	for {
		err := a.awaitReceivers(waiting, session, p)
		if err == nil {
			return session, nil
		}
		a.leave(ctx, session)
		if !isExpired(err) {
			return nil, err
		}
		fmt.Fprintf(a.stderr, "%v; joining again\n", err)
		if session, err = a.joinAgain(waiting, client, p.join); err != nil {
			return nil, err
		}
	}
}

// follow shows how a delivery goes on until it has ended. Interrupted, it cancels it.
func (a *app) follow(ctx context.Context, client *sdk.Client, p *push, out *sdk.Outgoing) error {
	shown := newProgress(a)
	defer a.sayRefused(ctx, client, shown.say)()
	defer sayTrouble(ctx, out, shown.say)()
	ended, err := lookOn(out.ID(), out.Progress(ctx), client.WatchDelivery(ctx, out.ID()), shown)
	shown.end()
	if err != nil && ctx.Err() != nil {
		return a.cancel(ctx, out, shown)
	}
	if err != nil {
		return fmt.Errorf("delivery %.8s was lost sight of, and may go on (see 'groupcast delivery watch %[1]s'): %w", out.ID(), err)
	}
	sent, giveUp := context.WithTimeout(ctx, lastReads)
	_, _ = out.Wait(sent) // until nothing of it is sent any more
	giveUp()
	err = a.conclude(ctx, client, ended, shown)
	if p.keeps {
		a.sayUnkept(settled(ctx, client, ended))
	}
	return err
}

// lastReads is how long is waited for what still reads the source when its delivery has ended: the source's disk may not answer any more.
const lastReads = 5 * time.Second

// lookOn shows a delivery by what its session hears and, if that expires, by what the managers say: agents that have all of it go
// on without the sender.
func lookOn(id string, own, managers iter.Seq2[sdk.Delivery, error], shown *progress) (last sdk.Delivery, err error) {
	last, err = showAll(own, shown)
	if isExpired(err) {
		shown.say(fmt.Sprintf("%v; what becomes of delivery %.8s is shown all the same", err, id))
		last, err = showAll(managers, shown)
	}
	return last, err
}

// showAll shows a delivery each time that it changes, and returns it as it was last.
func showAll(states iter.Seq2[sdk.Delivery, error], shown *progress) (last sdk.Delivery, err error) {
	for d, err := range states {
		if err != nil {
			return last, err
		}
		last = d
		shown.show(d)
	}
	return last, nil
}

const (
	// troublePause is how often to look whether anything keeps a push from sending.
	troublePause = time.Second
	// troublePatience is how long that has to last before it is told: an agent that restarts is soon back.
	troublePatience = 5 * time.Second
)

// sayTrouble tells, until it is stopped, what keeps a push from sending, if it does for long.
func sayTrouble(ctx context.Context, out *sdk.Outgoing, say func(string)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var looking sync.WaitGroup
	looking.Go(func() {
		var since time.Time
		told := false
		for pause.For(ctx, troublePause) {
			switch err := out.Trouble(); {
			case err == nil:
				since, told = time.Time{}, false
			case since.IsZero():
				since = time.Now()
			case !told && time.Since(since) >= troublePatience:
				told = true
				say("nothing can be sent: " + printable.Text(err.Error()) + "; trying again")
			}
		}
	})
	return func() {
		cancel()
		looking.Wait()
	}
}

// cancel ends a delivery whose sender was interrupted.
func (a *app) cancel(ctx context.Context, out *sdk.Outgoing, shown *progress) error {
	canceling, stop := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer stop()
	if err := out.Cancel(canceling); err != nil {
		return fmt.Errorf("cancel delivery %s: %w", out.ID(), err)
	}
	if d, err := out.Wait(canceling); err == nil {
		return a.canceled(d, shown)
	}
	fmt.Fprintf(a.stderr, "delivery %.8s canceled\n", out.ID())
	return errInterrupted
}

// checkGroup returns an error if there is no such group, before all input or a directory is read for it. A user who may join and not ask finds out when
// joining.
func (a *app) checkGroup(ctx context.Context, client *sdk.Client, group string) error {
	asking, cancel := a.within(ctx, client)
	defer cancel()
	if _, err := client.Group(asking, group); sdk.CodeOf(err) != sdk.Forbidden {
		return err
	}
	return nil
}

// nameSender makes up a name for the session that sends, with that of the pod in it, so that it ends no session that receives. If a name was
// asked for, it checks that.
func (a *app) nameSender(ctx context.Context, client *sdk.Client, join *sdk.Join) error {
	if join.Name != "" {
		return a.checkNotReceiving(ctx, client, *join)
	}
	session, err := client.SessionName()
	member, pod, _ := strings.Cut(session, ".")
	join.Name = madeUp(cmp.Or(pod[:min(len(pod), podInName)], "push"))
	if member != "" {
		join.Name = member + "." + join.Name
	}
	return err
}

// podInName is how many characters of a pod's name are in a name that is made up for it, which has to be a DNS label.
const podInName = 56

// nameReceiver has a member join under its own name: however often it is restarted, it is the same member. A pod of an account joins
// as that pod, and others that are no members join under a name that is made up.
func nameReceiver(client *sdk.Client, join *sdk.Join) error {
	if join.Name != "" {
		return nil
	}
	name, err := client.SessionName()
	join.Name = cmp.Or(name, madeUp("pull"))
	return err
}

// madeUp returns a name that nobody else has.
func madeUp(what string) string { return what + "-" + strings.ToLower(rand.Text()[:6]) }

// checkNotReceiving refuses to join under the name of a member that receives: of two sessions of one
// name the later ends the earlier, and that member would receive nothing any more.
func (a *app) checkNotReceiving(ctx context.Context, client *sdk.Client, join sdk.Join) error {
	asking, cancel := a.within(ctx, client)
	defer cancel()
	members, err := client.Members(asking, join.Group)
	if err != nil {
		return err
	}
	for _, m := range members {
		if m.Name == join.Name && m.State == "active" && slices.Contains(m.Roles, sdk.Receive) {
			return &sdk.Error{Code: sdk.Conflict, Message: fmt.Sprintf("%s receives in group %s, and would not any more if this pushed under its name: push without --as", join.Name, join.Group)}
		}
	}
	return nil
}

func (a *app) join(ctx context.Context, client *sdk.Client, join sdk.Join) (*sdk.Session, error) {
	joining, cancel := a.within(ctx, client)
	defer cancel()
	session, err := client.Join(joining, join)
	if err == nil {
		a.session = session
	}
	return session, err
}

func (a *app) leave(ctx context.Context, session *sdk.Session) {
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	_ = session.Leave(leaving) // if that fails, it expires
}

// awaitReceivers waits until enough members receive, as long as this one is among the group's members itself.
func (a *app) awaitReceivers(ctx context.Context, session *sdk.Session, p *push) error {
	waiting, stop := whileJoined(ctx, session)
	defer stop()
	there := gathering{self: session.Member(), receivers: make(map[string]bool)}
	if p.waitLimit == 0 {
		defer there.sayAfter(hintAfter, a.stderr, p)()
	}
	for event, err := range session.Events(waiting) {
		if waiting.Err() != nil {
			break
		}
		if err != nil {
			return err
		}
		there.note(event)
		if there.joined && len(there.receivers) >= p.wait {
			return nil
		}
		fmt.Fprintf(a.stderr, "%s: waiting for receivers: %d of %d\n", time.Now().Format(time.TimeOnly), len(there.receivers), p.wait)
	}
	switch err := session.Err(); {
	case err != nil:
		return err
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &sdk.Error{Code: sdk.TimedOut, Reason: "TOO_FEW_RECEIVERS", Message: fmt.Sprintf(
			"%d of %d members receive after %v: nothing was sent. Start more with groupcast pull, or wait for fewer", len(there.receivers), p.wait, p.waitLimit)}
	}
	return errInterrupted
}

// gathering counts who has joined the group in which a member waits.
type gathering struct {
	self      sdk.Member
	mu        sync.Mutex
	joined    bool // the member itself is still joined
	receivers map[string]bool
}

// hintAfter is how long a push without --wait-limit waits until it says what it waits for.
const hintAfter = 30 * time.Second

// sayAfter says after a while who receives, how others come, and how not to wait for ever, unless it is stopped before.
func (g *gathering) sayAfter(while time.Duration, w io.Writer, p *push) (stop func() bool) {
	return time.AfterFunc(while, func() {
		there := g.names()
		who := "none is there"
		if len(there) > 0 {
			who = listed(there)
		}
		fmt.Fprintf(w, "%s: still waiting for receivers: %d of %d (%s); more come by 'groupcast pull --group %s', and --wait-limit bounds how long a push waits\n",
			time.Now().Format(time.TimeOnly), len(there), p.wait, who, p.join.Group)
	}).Stop
}

// names returns who receives.
func (g *gathering) names() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Sorted(maps.Keys(g.receivers))
}

func (g *gathering) note(event sdk.MemberEvent) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if event.Change != "" {
		g.noteOne(event.Member, event.Change != sdk.Removed)
		return
	}
	g.joined = false
	clear(g.receivers)
	for _, m := range event.Snapshot {
		g.noteOne(m, true)
	}
}

func (g *gathering) noteOne(m sdk.Member, there bool) {
	switch {
	case m.Name == g.self.Name:
		g.joined = there && m.Incarnation == g.self.Incarnation
	case there && slices.Contains(m.Roles, sdk.Receive):
		g.receivers[m.Name] = true
	default:
		delete(g.receivers, m.Name)
	}
}
