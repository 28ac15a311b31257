package paper

import (
	"time"

	wire "github.com/groupcast/groupcast/internal/wire/soma/paper"
)

// repair is the client's part of the second phase: "Each receiver re-scans its file looking
// for error marks. If one error mark is found, the client delivers a unicast REPAIR-REQUEST
// packet towards the server." (§III-A) One request is under way at a time. One that gets no
// answer is repeated, ever later; the paper says nothing of that.
type repair struct {
	asked  uint64 // the packet asked for; 0: none
	wait   time.Duration
	due    time.Time // when the next request is sent, or silence counts
	heard  time.Time // the server
	over   Reason    // why the client gives up
	active bool
}

// listen notes DATA that is new: the multicast phase goes on.
func (r *repair) listen(now time.Time, options ReceiverOptions) {
	r.asked, r.heard, r.active = 0, now, false
	r.due = now.Add(options.Silence)
}

// correct asks for what is missing once the end is known, and for what comes next when the
// server is silent: the end itself may be lost.
func (r *Receiver) correct(now time.Time, actions []Action) []Action {
	if !r.server.IsValid() || r.repair.over != "" || r.end != 0 && r.missing.first() == 0 {
		r.repair.due = time.Time{}
		return actions
	}
	isDue := !now.Before(r.repair.due)
	if isDue && !now.Before(r.repair.heard.Add(r.options.GivingUp)) {
		r.repair.over = SenderLost
		return actions
	}
	if !r.options.ErrorCorrection {
		r.repair.due = r.repair.heard.Add(r.options.GivingUp)
		return actions
	}
	if r.end != 0 && !r.repair.active {
		isDue = true
	}
	if !isDue {
		return actions
	}
	return append(actions, r.request(now))
}

// request asks for the first error mark; if the end is not known and there is none, for what
// comes next.
func (r *Receiver) request(now time.Time) Action {
	sn := r.missing.first()
	if sn == 0 || r.end == 0 {
		sn = r.expected
	}
	if r.repair.asked == sn {
		r.repair.wait = min(2*r.repair.wait, longestRepairTime)
	} else {
		r.repair.wait = defaultRepairTime
	}
	r.repair.asked, r.repair.active = sn, true
	r.repair.due = now.Add(r.repair.wait)
	return Unicast{To: r.server, Packet: wire.Packet{SN: uint32(sn), Type: wire.RepairRequest, LWSN: uint32(sn)}}
}

// response takes the answer to a request, and has the next one sent at once.
func (r *Receiver) response(now time.Time, p wire.Packet) []Action {
	sn := uint64(p.SN)
	isNext := sn == r.expected && r.end == 0
	if r.repair.asked == 0 || !isNext && !r.missing.has(sn) || !r.fits(sn, len(p.Payload)) {
		return nil
	}
	r.repair.heard = now
	if isNext {
		r.expected++
	} else {
		r.missing.remove(sn)
	}
	if sn == r.repair.asked {
		r.repair.due = now
	}
	return r.store(sn, p.Payload)
}
