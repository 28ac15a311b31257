package replicator

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	replicav1 "github.com/groupcast/groupcast/internal/gen/groupcast/replica/v1"
	"github.com/groupcast/groupcast/internal/multicast"
	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/internal/printable"
	"github.com/groupcast/groupcast/internal/pulse"
	"github.com/groupcast/groupcast/services/replicator/receive"
)

const (
	// silence is how long a replica may be silent on the LAN: as long as a switch may need to let a port that was down speak again, and
	// more. How long the sender may be silent is up to the managers: they withdraw the task when it is gone.
	silence = time.Minute
	// unheardAfter is after how long of the sender's silence the managers are told: session agents may carry the rest.
	unheardAfter = 10 * time.Second
	// networkEvery is how often it is tried to hear a LAN whose interface is gone, or has no address: it may come back, and until
	// then the managers take this replica for one that hears nothing.
	networkEvery = time.Second
)

// receive receives a replica, until it is there, or failed, or the task is withdrawn.
func (w *worker) receive(ctx context.Context, j *job, key []byte, task *replicav1.ReceiveTask) {
	receipt, err := w.hearing(ctx, j, task.GetLan(), func() (receive.Receipt, error) { return w.receiveFrom(ctx, j, key, task) })
	if err != nil {
		w.failed(ctx, j, reasonOf(err), err, receipt.Stats)
		return
	}
	w.note(true, func() {
		j.receiving.ResumedBytes = receipt.Resumed
		w.complete(j, receipt.Info, receipt.Root[:], receipt.Done, receipt.Stats)
	})
}

// hearing tries to receive again for as long as the LAN cannot be heard, and has the managers told when that takes long. Where the path
// carries none of the packets, nothing is tried again.
func (w *worker) hearing(ctx context.Context, j *job, lan string, try func() (receive.Receipt, error)) (receipt receive.Receipt, err error) {
	for deafSince := time.Now(); ; {
		began := time.Now()
		receipt, err = try()
		if errors.Is(err, receive.ErrTooLarge) {
			w.awaitAgents(ctx, j, lan, err)
		}
		if !errors.Is(err, receive.ErrNoNetwork) {
			return receipt, err
		}
		if time.Since(began) > networkEvery { // the LAN was heard meanwhile
			deafSince = time.Now()
		}
		w.cannotHear(j, lan, err)
		if time.Since(deafSince) >= unheardAfter {
			w.hears(j.receiving, false)
		}
		if !pause.For(ctx, networkEvery) {
			return receipt, err
		}
		w.note(false, func() { j.receiving.Detail = "" })
	}
}

// awaitAgents reports why multicast does not get here, and waits until the task is withdrawn: the managers have session agents carry it, or
// say that there are none.
func (w *worker) awaitAgents(ctx context.Context, j *job, lan string, err error) {
	w.log.Warn("what is sent does not get here: session agents are waited for", "replication", j.receiving.GetReplication(), "lan", lan, "error", err)
	w.note(true, func() {
		j.receiving.State, j.receiving.Detail = replicav1.ReplicaState_REPLICA_STATE_WAITING, printable.OneLine(err.Error())
	})
	<-ctx.Done()
}

// cannotHear reports why a LAN cannot be heard for now, and logs it when that is new.
func (w *worker) cannotHear(j *job, lan string, err error) {
	why := printable.OneLine(err.Error())
	if j.deaf != why {
		j.deaf = why
		w.log.Warn("the LAN of a replication cannot be heard, and is tried again", "replication", j.receiving.GetReplication(), "lan", lan, "error", err)
	}
	w.note(false, func() { j.receiving.Detail = why })
}

// failed reports that a replica will not be.
func (w *worker) failed(ctx context.Context, j *job, reason string, err error, stats receive.Stats) {
	if ctx.Err() != nil { // withdrawn: nobody asks how it went
		w.note(false, func() { w.came(j, stats) })
		return
	}
	w.log.Warn("a replication failed here", "replication", j.receiving.GetReplication(), "error", err)
	w.note(true, func() {
		said := j.receiving
		w.came(j, stats)
		said.State, said.Reason, said.Detail = replicav1.ReplicaState_REPLICA_STATE_FAILED, reason, printable.OneLine(err.Error())
		w.metrics.ended(said)
	})
}

// complete reports that a replica is there, and since when. The caller has the lock.
func (w *worker) complete(j *job, info object.Info, root []byte, done time.Time, stats receive.Stats) {
	said := j.receiving
	w.came(j, stats)
	w.log.Info("a replica is complete", "replication", said.GetReplication(), "name", info.Name, "bytes", info.Length)
	said.State, said.Root, said.Bytes = replicav1.ReplicaState_REPLICA_STATE_COMPLETE, root, info.Length
	said.Elapsed = durationpb.New(done.Sub(j.told))
	w.metrics.ended(said)
}

// landed notes how much of a replica is there, and how much of it came over the network.
func (w *worker) landed(j *job, bytes uint64, stats receive.Stats) {
	w.note(false, func() {
		j.receiving.Bytes = bytes
		w.came(j, stats)
	})
}

// came counts what came over the network, unless that is less than was told already: where all begins anew, what
// came before is told again in the end. The caller has the lock.
func (w *worker) came(j *job, stats receive.Stats) {
	before := j.counted
	if stats.Came >= before.Came && stats.Forged >= before.Forged && stats.Rebuilt >= before.Rebuilt && stats.Spilled >= before.Spilled {
		w.metrics.came(j.counted, stats)
		j.counted = stats
	}
}

func (w *worker) receiveFrom(ctx context.Context, j *job, key []byte, task *replicav1.ReceiveTask) (receive.Receipt, error) {
	if err := w.places.disks.check(pulse.DiskOf(task.GetPath())); err != nil {
		return receive.Receipt{}, err
	}
	place, err := w.place(w.config.way, task.GetLan(), task.GetGroup())
	if errors.Is(err, errAway) {
		err = fmt.Errorf("%w: %w", receive.ErrNoNetwork, err)
	}
	if err != nil {
		return receive.Receipt{}, err
	}
	said := j.receiving
	return receive.Run(ctx, receive.Env{
		Log:      w.log.With("replication", said.GetReplication()),
		Waits:    func() { w.turns(said, replicav1.ReplicaState_REPLICA_STATE_WAITING) },
		Progress: func(p receive.Progress) { w.progresses(j, p) },
	}, receive.Config{
		Place: place, Key: key, Next: func() []byte { return w.turn(j).Key }, Name: w.name, LAN: task.GetLan(), NameKey: task.GetNameKey(), SenderProves: task.GetSenderProves(), Waits: true, Durable: true,
		Path: task.GetPath(), DiskPatience: w.places.disks.patience,
		Left: func(disk pulse.Disk, what string, since time.Time) func() {
			return w.leftBehind(disk, task.GetPath(), said.GetReplication(), what, since)
		},
		Find: func(ctx context.Context, info object.Info) (receive.Landing, error) {
			w.turns(said, replicav1.ReplicaState_REPLICA_STATE_RECEIVING)
			return w.places.found(ctx, task.GetPath(), task.GetDeviceSerial(), info)
		},
		Open: func(ctx context.Context, info object.Info) (receive.Landing, error) {
			w.turns(said, replicav1.ReplicaState_REPLICA_STATE_RECEIVING)
			return w.places.landing(ctx, task.GetPath(), task.GetDeviceSerial(), info)
		},
	})
}

// progresses notes how far a replica is that comes by multicast.
func (w *worker) progresses(j *job, p receive.Progress) {
	w.turns(j.receiving, replicav1.ReplicaState_REPLICA_STATE_RECEIVING)
	w.metrics.uses("merge", p.Stats.Offload.Merge)
	w.landed(j, p.Landed, p.Stats)
	w.hears(j.receiving, p.Silent < unheardAfter)
}

// turns notes that it receives, or waits for a sender again, which is reported at once when it is new.
func (w *worker) turns(said *replicav1.ReceiveReport, state replicav1.ReplicaState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if said.State != state {
		said.State = state
		w.poke()
	}
}

// hears notes whether the sender is heard, which is reported at once when it changes.
func (w *worker) hears(said *replicav1.ReceiveReport, heard bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if said.Unheard == heard {
		said.Unheard = !heard
		w.poke()
	}
}

// errAway says that this machine is not on a LAN.
var errAway = errors.New("this machine is not there now")

// place is where a replication meets on a LAN, to which a way leads.
func (w *worker) place(leads func(lan string) (way, error), lan, group string) (multicast.Place, error) {
	at, err := netip.ParseAddrPort(group)
	if err != nil {
		return multicast.Place{}, fmt.Errorf("multicast group %q: %w", group, err)
	}
	to, err := leads(lan)
	if err != nil {
		return multicast.Place{}, fmt.Errorf("%w: LAN %s: %w", errAway, lan, err)
	}
	return multicast.Place{Group: at, Interface: to.device, Address: to.address, TTL: w.config.TTL}, nil
}

// reasonOf is the word for why a replica did not come to be.
func reasonOf(err error) string {
	switch {
	case errors.Is(err, errNotAllowed):
		return "refused"
	case errors.Is(err, errNoSession):
		return "session_lost"
	}
	return receive.Word(err)
}
