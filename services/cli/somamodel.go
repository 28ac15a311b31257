package cli

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/groupcast/groupcast/internal/algo/soma/model"
	"github.com/groupcast/groupcast/internal/bytesize"
	wire "github.com/groupcast/groupcast/internal/wire/soma/paper"
)

// network is what the equations are about. The defaults are the paper's.
type network struct {
	c1, c2           float64 // Mbit/s
	n1, n2           int
	payload, headers int
	clients, window  int
	artpMax, timeout time.Duration
	file             bytesize.Size
}

func (a *app) somaModel() *cobra.Command {
	n := network{file: 10_000_000}
	command := &cobra.Command{
		Use: "model", Short: "Print what the paper's equations (8) to (18) say of a network", Args: cobra.NoArgs,
		Example: "  groupcast soma model --c2 2 --dflt-timeout 80ms --clients 30",
	}
	flags := command.Flags()
	flags.Float64Var(&n.c1, "c1", 100, "capacity of the fast LANs, in Mbit/s; the server is in one")
	flags.Float64Var(&n.c2, "c2", 1.55, "capacity of the slow LANs, in Mbit/s")
	flags.IntVar(&n.n1, "n1", 1, "fast LANs on the longest way")
	flags.IntVar(&n.n2, "n2", 1, "slow LANs on the longest way")
	flags.IntVar(&n.payload, "payload", 512, "bytes of the file in each packet")
	flags.IntVar(&n.headers, "headers", 0, "bytes of the headers below SOMA's 11: 28 counts UDP and IP, 42 Ethernet, too")
	flags.IntVar(&n.clients, "clients", 4, "clients in each LAN; of more than 40 equation (8) cannot be computed, and is left out")
	flags.IntVar(&n.window, "window", 100, "the maximum window, in packets; those of (15), (16) and (18) follow from the timeout, and are told where they are greater")
	flags.DurationVar(&n.artpMax, "artp-max", 600*time.Microsecond, "the longest random time before an ACK")
	flags.DurationVar(&n.timeout, "dflt-timeout", 100*time.Millisecond, "the least timeout, dflt_Tout")
	flags.Var(&n.file, "file", "size of the file")
	command.RunE = func(*cobra.Command, []string) error {
		if err := n.check(); err != nil {
			return usageError{err}
		}
		return printList(a, n.results(), []column[result]{
			{title: "EQUATION", cell: func(r result) string { return r.Equation }},
			{title: "WHAT", cell: func(r result) string { return r.What }},
			{title: "VALUE", cell: func(r result) string { return r.Value }},
		})
	}
	return command
}

func (n network) check() error {
	var wrong []error
	for _, flag := range []struct {
		name  string
		value int
	}{{"n1", n.n1}, {"n2", n.n2}, {"payload", n.payload}, {"clients", n.clients}, {"window", n.window}} {
		if flag.value < 1 {
			wrong = append(wrong, fmt.Errorf("--%s %d: it has to be 1 at least", flag.name, flag.value))
		}
	}
	if n.payload > wire.MaxPayload {
		wrong = append(wrong, fmt.Errorf("--payload %d: it can be %d at most", n.payload, wire.MaxPayload))
	}
	if !isCapacity(n.c1) || !isCapacity(n.c2) || n.headers < 0 || n.artpMax < 0 || n.timeout <= 0 {
		wrong = append(wrong, errors.New("capacities and times have to be positive"))
	}
	if len(wrong) > 0 { // nothing can be computed
		return errors.Join(wrong...)
	}
	artp := model.Feedback{Clients: n.clients, Max: n.artpMax}.Mean()
	switch {
	case n.timeout <= artp:
		return fmt.Errorf("--dflt-timeout %v is not greater than the mean ARTP, %v: no window would be confirmed", n.timeout, artp)
	case n.path().SteadyWindow(n.timeout, artp) < 1:
		return fmt.Errorf("--dflt-timeout %v is over before a packet with --payload %d has passed the slow LANs (--n2 %d, --c2 %v) and is acknowledged: no window would be confirmed", n.timeout, n.payload, n.n2, n.c2)
	}
	return nil
}

// isCapacity reports whether a capacity is more than nothing, and a number.
func isCapacity(c float64) bool { return c > 0 && !math.IsInf(c, 0) }

// result is what one equation says.
type result struct {
	Equation string `json:"equation"`
	What     string `json:"what"`
	Value    string `json:"value"`
}

func (n network) path() model.Path {
	return model.Path{
		Packets: model.Packets{Payload: model.Bytes(n.payload), Data: model.Bytes(n.payload + wire.HeaderSize + n.headers), ACK: model.Bytes(wire.HeaderSize + n.headers)},
		C1:      model.Rate(n.c1) * model.Mbit, C2: model.Rate(n.c2) * model.Mbit, N1: n.n1, N2: n.n2,
	}
}

func (n network) results() []result {
	p, f := n.path(), model.Feedback{Clients: n.clients, Max: n.artpMax}
	file, artp := model.Bytes(int(n.file)), f.Mean()
	steady := p.SteadyWindow(n.timeout, artp)
	say := func(equation string, value any, what string, values ...any) result {
		return result{equation, fmt.Sprintf(what, values...), fmt.Sprint(value)}
	}
	var all []result
	if n.clients <= model.MostSummed {
		all = append(all, say("(8)", f.MeanSum(), "mean ARTP of %d clients, as a sum", n.clients))
	}
	return append(all,
		say("(9)", artp, "mean ARTP of %d clients", n.clients),
		say("(10)", p.TransferTime(file, p.C1, n.window, artp), "time for %v in one fast LAN with a window of %d", n.file, n.window),
		say("(11)", p.Reduction(file, p.C1, 1, n.window, artp), "what a window of %d saves of that over one of 1", n.window),
		say("(12)", fmt.Sprintf("%.4g", model.ReductionLimit(n.window)), "limit of the factor in (11) for windows greater than %d", n.window),
		say("(13)", fmt.Sprintf("%.4g", model.ReductionFactor(1, n.window)), "factor in (11), from 1 to %d", n.window),
		say("(14)", fmt.Sprintf("%.4g", model.ReductionFactor(n.window, 10*n.window)), "factor in (11), from %d to %d", n.window, 10*n.window),
		say("(15)", p.Confirmation(steady, artp), "time to the last ACK of a window of %d%s", steady, n.beyond(steady)),
		say("(16)", steady, "window in the steady state, W_T, with %d slow LANs%s", n.n2, n.beyond(steady)),
		say("(17)", p.MaximumThroughput(n.window, p.C1, artp), "greatest throughput without congestion, window %d", n.window),
		say("(18)", p.CongestedThroughput(steady, p.C1, n.timeout), "greatest throughput with congestion, window %d%s", steady+1, n.beyond(steady+1)),
	)
}

// beyond is what is said of a window that is greater than the maximum: no sender has one.
func (n network) beyond(window int) string {
	if window <= n.window {
		return ""
	}
	return fmt.Sprintf(": more than the maximum, %d", n.window)
}
