// Package model is the mathematics of SOMA's paper (004 §III-D and §IV): equations (6) to
// (19) as functions. Sizes are in bits and rates in bits per second, as the paper has
// them.
package model

import (
	"fmt"
	"math"
	"time"
)

// Bits is a size.
type Bits float64

// Bytes is a size told in bytes.
func Bytes(n int) Bits { return Bits(8 * n) }

// Rate is bits per second.
type Rate float64

// Rates are told in these.
const (
	Kbit Rate = 1e3
	Mbit Rate = 1e6
	Gbit Rate = 1e9
)

// String tells the rate in Mbit/s.
func (r Rate) String() string { return fmt.Sprintf("%.4g Mbit/s", float64(r/Mbit)) }

// Time is how long a size takes at the rate.
func (r Rate) Time(size Bits) time.Duration { return seconds(float64(size) / float64(r)) }

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * float64(time.Second))) }

// rate is a size over the time that it takes.
func rate(size Bits, took time.Duration) Rate { return Rate(float64(size) / took.Seconds()) }

// Packets are the sizes of packets, whatever layer they are counted at.
type Packets struct {
	Payload Bits // PayloadS
	Data    Bits // DataPS
	ACK     Bits // AckPS
}

// Paper are the sizes that the paper's own figures follow from: 512 bytes of payload and
// the 11 of the header, without those of UDP, IP and Ethernet.
var Paper = Packets{Payload: Bytes(512), Data: Bytes(523), ACK: Bytes(11)}

// TransferTime is equation (10): how long a file takes in one LAN of capacity c, if every
// window has w packets and ARTP is the mean time to an ACK.
func (p Packets) TransferTime(file Bits, c Rate, w int, artp time.Duration) time.Duration {
	packets := float64(file / p.Payload)
	sending := packets * float64(p.Data) / float64(c)
	return seconds(sending + packets/float64(w)*p.acknowledging(c, artp))
}

// acknowledging is what a window costs beside its data, in seconds.
func (p Packets) acknowledging(c Rate, artp time.Duration) float64 {
	return artp.Seconds() + float64(p.ACK)/float64(c)
}

// Reduction is equation (11): by how much windows of w2 packets shorten a transfer with
// windows of w1.
func (p Packets) Reduction(file Bits, c Rate, w1, w2 int, artp time.Duration) time.Duration {
	return seconds(float64(file/p.Payload) * p.acknowledging(c, artp) * ReductionFactor(w1, w2))
}

// ReductionFactor is the last factor of equation (11), as (13) and (14) have it in numbers.
func ReductionFactor(w1, w2 int) float64 { return float64(w2-w1) / (float64(w1) * float64(w2)) }

// ReductionLimit is equation (12): ReductionFactor with w2 without bounds.
func ReductionLimit(w1 int) float64 { return 1 / float64(w1) }

// Path is the way of the last ACK of a window: through LANs of two capacities.
type Path struct {
	Packets
	C1, C2 Rate // C1 ≫ C2; the server is in a LAN with C1
	N1, N2 int  // how many LANs of each the way has: N_C1 and N_C2
}

// Confirmation is equation (15) as it is before anything is neglected: when the last ACK
// of a window of w packets is at the server.
func (p Path) Confirmation(w int, artp time.Duration) time.Duration {
	data1, data2 := float64(p.Data)/float64(p.C1), float64(p.Data)/float64(p.C2)
	ack1, ack2 := float64(p.ACK)/float64(p.C1), float64(p.ACK)/float64(p.C2)
	n1, n2 := float64(p.N1), float64(p.N2)
	return seconds(float64(w)*data2 + (n2-1)*data2 + n1*data1 + artp.Seconds() + n1*ack1 + n2*ack2)
}

// ConfirmationInShort is what equation (15) is about: without what C1 ≫ C2 makes small,
// and without the ACKs.
func (p Path) ConfirmationInShort(w int, artp time.Duration) time.Duration {
	return seconds(float64(w+p.N2-1)*float64(p.Data)/float64(p.C2) + artp.Seconds())
}

// SteadyWindow is equation (16): the window just before congestion is detected, W_T.
func (p Path) SteadyWindow(timeout, artp time.Duration) int {
	return int(math.Floor((timeout-artp).Seconds()/float64(p.Data)*float64(p.C2) - float64(p.N2-1)))
}

// MaximumThroughput is equation (17): what windows of w packets carry through a network of
// capacity c that nothing congests.
func (p Packets) MaximumThroughput(w int, c Rate, artp time.Duration) Rate {
	window := Bits(w) * p.Data
	return rate(window, c.Time(window)+artp)
}

// CongestedThroughput is equation (18): what is carried where the timeout, and not the
// ACKs, tells when the next window is sent. The capacity is that at the server.
func (p Packets) CongestedThroughput(steadyWindow int, c Rate, timeout time.Duration) Rate {
	window := Bits(steadyWindow+1) * p.Data
	return rate(window, c.Time(window)+timeout)
}

// CongestedLimit is equation (19): (18) with the window that (16) tells for N_C2 = 1, if
// ARTP is negligible. It is about C2. As printed, the units of its divisor do not fit; this
// is what putting (16) into (18) gives.
func (p Path) CongestedLimit(timeout time.Duration) Rate {
	window := Bits(timeout.Seconds()*float64(p.C2)) + p.Data
	return rate(window, p.C1.Time(window)+timeout)
}
