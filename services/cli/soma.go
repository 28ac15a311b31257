package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/groupcast/groupcast/internal/capture"
	"github.com/groupcast/groupcast/internal/wire/soma/fast"
	wire "github.com/groupcast/groupcast/internal/wire/soma/paper"
)

const somaAbout = `SOMA is how replicas are made by multicast. These commands look at its traffic, in a
capture that tcpdump or Wireshark wrote, or as it passes a network interface, which needs
root or the capability NET_RAW. In the profile of its paper they see all of it; in the
default one, which is sealed, what each packet begins with. Packets are known by the port of
the group that they are sent to: 7431 where managers have chosen the group. Without a manager
the port follows from the phrase, and none is shown: have sender and receivers use one
that you know (groupcast-replicator … --group 239.1.2.3:7431).`

func (a *app) somaCommand() *cobra.Command {
	soma := &cobra.Command{Use: "soma", Short: "See SOMA's packets, windows and equations", Long: somaAbout}
	soma.AddCommand(a.somaDecode(), a.somaFigures(), a.somaModel())
	return soma
}

// traffic is where packets come from.
type traffic struct {
	device  string
	port    uint16
	count   int
	servers map[netip.AddrPort]bool // of transfers on another port
	stderr  io.Writer
	told    bool // that there are more servers than that
	isFile  bool // it ends by itself
}

func (t *traffic) flags(command *cobra.Command) {
	command.Flags().StringVarP(&t.device, "interface", "i", "", "network interface to listen on, instead of a file")
	command.Flags().Uint16VarP(&t.port, "port", "p", 7431, "UDP port by which SOMA is known: that of the replication's group")
	command.Flags().IntVarP(&t.count, "count", "c", 0, "end after so many packets; 0 is all")
	command.Args = cobra.MaximumNArgs(1)
}

// packets is a file or an interface.
type packets interface {
	Next() (capture.Packet, error)
}

// open opens the file that is named, "-" for standard input, or the interface.
func (t *traffic) open(ctx context.Context, args []string) (from packets, closed func(), err error) {
	switch {
	case (len(args) == 1) == (t.device != ""):
		return nil, nil, usageError{errors.New("give a FILE, or an interface with -i")}
	case t.device != "":
		live, err := capture.Listen(t.device, t.port)
		if err != nil {
			return nil, nil, err
		}
		stop := context.AfterFunc(ctx, func() { _ = live.Close() })
		return live, func() { stop(); _ = live.Close() }, nil
	}
	file, closed, err := t.openFile(ctx, args[0])
	if err != nil {
		return nil, nil, err
	}
	if from, err = capture.NewReader(file); err != nil {
		closed()
		return nil, nil, unreadable(ctx, args[0], err)
	}
	return from, closed, nil
}

// openFile opens the file that is named, "-" for standard input. Reading it ends when ctx is done.
func (t *traffic) openFile(ctx context.Context, name string) (from *bufio.Reader, closed func(), err error) {
	file := os.Stdin
	if name != "-" {
		if file, err = os.Open(name); err != nil {
			return nil, nil, err
		}
		t.isFile = true
	}
	return bufio.NewReaderSize(&until{ctx, file}, 1<<16), func() { _ = file.Close() }, nil
}

// unreadable says why a file could not be read, which an interrupt looks like.
func unreadable(ctx context.Context, name string, err error) error {
	if ctx.Err() != nil {
		return errInterrupted
	}
	return fmt.Errorf("read %s: %w", name, err)
}

// each calls take with every datagram of SOMA's, until there are no more, or until there were as many as were
// asked for.
func (t *traffic) each(ctx context.Context, args []string, take func(capture.Packet, capture.Datagram) error) error {
	from, closed, err := t.open(ctx, args)
	if err != nil {
		return err
	}
	defer closed()
	return t.read(ctx, from, take)
}

// read is each for what is open. Interrupting it is the regular end of an interface, or of standard input; a file would have had
// more.
func (t *traffic) read(ctx context.Context, from packets, take func(capture.Packet, capture.Datagram) error) error {
	cut := 0
	for seen := 0; t.count == 0 || seen < t.count; {
		packet, err := from.Next()
		switch {
		case ctx.Err() != nil && t.isFile:
			return errInterrupted
		case errors.Is(err, io.EOF) || ctx.Err() != nil:
			return snapped(cut)
		}
		if err != nil {
			return fmt.Errorf("read packets: %w", err)
		}
		datagram, is := packet.Datagram()
		if is {
			is, err = t.isOurs(from, datagram)
		}
		if err != nil {
			return err
		}
		switch {
		case !is:
			continue
		case datagram.IsCut:
			cut++
			continue
		}
		seen++
		if err := take(packet, datagram); err != nil {
			return err
		}
	}
	return snapped(cut)
}

var errSnapped = errors.New("packets were not captured whole: capture with a longer snap length, as tcpdump -s 0 does")

// snapped says of how many packets only the beginning was captured: what they were cannot be told.
func snapped(packets int) error {
	if packets == 0 {
		return nil
	}
	return fmt.Errorf("%d %w", packets, errSnapped)
}

// isOurs reports whether a datagram is SOMA's: one of its port, or of a transfer whose server has another port, which its kernel has
// chosen. Such a server is known by what it sends to its group.
func (t *traffic) isOurs(from packets, d capture.Datagram) (is bool, err error) {
	if t.servers[d.From] || t.servers[d.To] {
		return true, nil
	}
	if d.From.Port() == t.port || d.To.Port() != t.port {
		return d.From.Port() == t.port, nil
	}
	if !d.To.Addr().IsMulticast() || !isOfServer(d.Payload) {
		return true, nil
	}
	if len(t.servers) == mostServers {
		if !t.told {
			fmt.Fprintf(t.stderr, "groupcast: more than %d servers have another port than %d: what receivers answer those that came later is not shown\n", mostServers, t.port)
			t.told = true
		}
		return true, nil
	}
	if t.servers == nil {
		t.servers = make(map[netip.AddrPort]bool)
	}
	t.servers[d.From] = true
	if live, is := from.(*capture.Live); is {
		err = live.Admit(d.From.Port())
	}
	return true, err
}

// isOfServer reports whether a datagram to a group is one that only the server sends.
func isOfServer(datagram []byte) bool {
	if p, err := wire.Parse(datagram); err == nil {
		return p.Type == wire.Data
	}
	head, err := fast.ParseHead(datagram)
	return err == nil && slices.Contains([]fast.Kind{fast.Announce, fast.Data, fast.Parity, fast.Zero, fast.Poll}, head.Kind)
}

// mostServers is how many servers with ports of their own are known: as many as an interface can be filtered for.
const mostServers = capture.MostPorts - 1

// line is a packet as JSON has it.
type line struct {
	Time    time.Time `json:"time"`
	From    string    `json:"from"`
	To      string    `json:"to"`
	Type    string    `json:"type,omitempty"`
	SN      uint32    `json:"sn,omitempty"`
	LWSN    uint32    `json:"lwsn,omitempty"`
	PL      int       `json:"pl,omitempty"`
	Sealed  *sealed   `json:"sealed,omitempty"`
	Refused string    `json:"refused,omitempty"`
}

// sealed is what a packet of the default profile has in the clear. Only those who have the key know whether it is true.
type sealed struct {
	Session string `json:"session"`
	Index   uint8  `json:"index"`
	Block   uint32 `json:"block"`
	Number  uint64 `json:"number"`
	Bytes   int    `json:"bytes"`
}

func (a *app) somaDecode() *cobra.Command {
	from := traffic{stderr: a.stderr}
	var keep string
	command := &cobra.Command{
		Use: "decode [FILE]", Short: "Print one line for each packet of a capture or an interface",
		Long: `Print one line for each packet. Of the default profile that is what is in the clear: what kind of packet it is, of which
session and block, its number, and how many bytes it has with all that is sealed.`,
		Example: "  groupcast soma decode transfer.pcap\n  groupcast soma decode -i eth0 --write transfer.pcap",
	}
	from.flags(command)
	command.Flags().StringVarP(&keep, "write", "w", "", "write the packets of an interface to a file, too")
	command.RunE = func(command *cobra.Command, args []string) error {
		if keep == "" {
			return from.each(command.Context(), args, func(_ capture.Packet, d capture.Datagram) error { return a.printPacket(d) })
		}
		if from.device == "" {
			return usageError{errors.New("--write needs an interface")}
		}
		return a.keepPackets(command.Context(), &from, args, keep)
	}
	return command
}

// keepPackets prints what passes an interface, and writes it to a file, which is touched once there is an interface.
func (a *app) keepPackets(ctx context.Context, from *traffic, args []string, name string) error {
	passing, closed, err := from.open(ctx, args)
	if err != nil {
		return err
	}
	defer closed()
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	writer, err := capture.NewWriter(file, capture.Raw)
	if err == nil {
		err = from.read(ctx, passing, func(p capture.Packet, d capture.Datagram) error {
			return errors.Join(writer.Write(p), a.printPacket(d))
		})
	}
	return errors.Join(err, file.Close())
}

// printPacket prints "all the packet information in only one line" (004 §V).
func (a *app) printPacket(d capture.Datagram) error {
	record := line{Time: d.At, From: d.From.String(), To: d.To.String()}
	var said string
	p, err := wire.Parse(d.Payload)
	head, other := fast.ParseHead(d.Payload)
	switch {
	case err == nil:
		record.Type, record.SN, record.LWSN, record.PL, said = p.Type.String(), p.SN, p.LWSN, p.Length(), p.String()
	case other == nil:
		s := sealed{fmt.Sprintf("%08x", head.Session), head.Index, head.Block, head.Number, len(d.Payload)}
		record.Type, record.Sealed = head.Kind.String(), &s
		said = fmt.Sprintf("SOMA %v session %s block %d index %d number %d, sealed, %d bytes", head.Kind, s.Session, s.Block, s.Index, s.Number, s.Bytes)
	default:
		record.Refused, said = err.Error(), err.Error()
	}
	if a.output == "json" || a.output == "yaml" {
		return a.event(record, "")
	}
	_, err = fmt.Fprintf(a.stdout, "%s %v > %v %s\n", d.At.UTC().Format("15:04:05.000000"), d.From, d.To, said)
	return err
}
