package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/groupcast/groupcast/internal/printable"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/cli/installation"
)

// installed is which installation on Kubernetes is meant.
type installed struct{ namespace, release string }

var partColumns = []column[installation.Part]{
	{title: "PART", cell: func(p installation.Part) string { return p.Part }},
	{title: "READY", cell: func(p installation.Part) string { return fmt.Sprintf("%d/%d", p.Ready, p.Desired) }},
	{title: "WORKLOAD", wide: true, cell: func(p installation.Part) string { return p.Workload }},
	{title: "CHART", wide: true, cell: func(p installation.Part) string { return p.Chart }},
}

// statusOfPods shows which parts of an installation are ready, and says why others are not.
func (a *app) statusOfPods(ctx context.Context, at installed) error {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	state, release, err := a.askKubernetes(ctx, at)
	if err != nil {
		return err
	}
	parts := state.Parts(release)
	var waiting []string
	for _, part := range parts {
		if !part.IsReady() {
			waiting = append(waiting, part.Part)
		}
		for _, problem := range part.Problems {
			fmt.Fprintf(a.stderr, "%s: %s: %s\n  %s\n", part.Part, several(problem.Of), printable.Text(problem.Why), problem.Next)
		}
	}
	if err := printList(a, parts, partColumns); err != nil {
		return err
	}
	if len(waiting) > 0 {
		return &sdk.Error{Code: sdk.Unavailable, Message: "not all is ready of " + strings.Join(waiting, ", ")}
	}
	return nil
}

// several names objects, of many the first.
func several(names []string) string {
	if more := len(names) - 1; more > 0 {
		return fmt.Sprintf("%s and %d more", names[0], more)
	}
	return names[0]
}

// askKubernetes reads what there is of a release.
func (a *app) askKubernetes(ctx context.Context, at installed) (state *installation.State, release string, err error) {
	workloads, err := a.kubectl(ctx, at, "get", "pods,daemonsets,statefulsets,deployments", "-l", installation.Workloads, "-o", "json")
	if err != nil {
		return nil, "", err
	}
	others, err := a.kubectl(ctx, at, "get", "persistentvolumeclaims,events", "-o", "json")
	if err != nil {
		return nil, "", err
	}
	if state, err = installation.Read(at.namespace, workloads, others); err != nil {
		return nil, "", err
	}
	if release, err = at.choose(state); err != nil {
		return nil, "", err
	}
	if slices.ContainsFunc(state.Parts(release), func(p installation.Part) bool { return !p.IsReady() }) {
		if nodes, is := a.tryKubectl(ctx, at, "which nodes are away", "get", "nodes", "-o", "json"); is {
			if err := state.Add(nodes); err != nil {
				return nil, "", err
			}
		}
	}
	for part, pod := range state.Unwell(release) {
		if log, is := a.tryKubectl(ctx, at, "what "+pod+" has in its log", "logs", pod, "-c", part, "--tail=100"); is {
			state.AddLog(part, string(log))
		}
	}
	return state, release, nil
}

// choose returns the release that is meant of those that are there.
func (at installed) choose(state *installation.State) (string, error) {
	there := state.Releases()
	for _, release := range there {
		if release == at.release || at.release == "" && len(there) == 1 {
			return release, nil
		}
	}
	switch {
	case len(there) == 0:
		return "", &sdk.Error{Code: sdk.NotFound, Message: at.nothing(state.Kept(at.release))}
	case at.release != "":
		return "", &sdk.Error{Code: sdk.NotFound, Message: fmt.Sprintf("the namespace %s has no release %s, but %s", at.namespace, at.release, strings.Join(there, ", "))}
	}
	return "", usageError{fmt.Errorf("the namespace %s has several releases: name one of %s with --release", at.namespace, strings.Join(there, ", "))}
}

// nothing says of a namespace without a release what an uninstallation has left there: what was stored is in claims, which stay.
func (at installed) nothing(kept []string) string {
	if len(kept) == 0 {
		return fmt.Sprintf("nothing of Groupcast is in the namespace %s: helm install has not been there, or was refused, or it was uninstalled", at.namespace)
	}
	return fmt.Sprintf("no release of Groupcast is in the namespace %s: it was uninstalled, and its claims are kept (%s); helm install under the same name goes on from them, "+
		"and kubectl -n %s delete pvc %s removes what is in them for good", at.namespace, strings.Join(kept, ", "), at.namespace, strings.Join(kept, " "))
}

// tryKubectl runs kubectl for what the rest does not need. A user who may not see it is told what is not known for that, and is not
// shown an error; and it may take half of the time alone.
func (a *app) tryKubectl(ctx context.Context, at installed, what string, args ...string) (out []byte, is bool) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout/2)
	defer cancel()
	var said bytes.Buffer
	out, err := a.runKubectl(ctx, at, &said, args...)
	switch sdk.CodeOf(err) {
	case sdk.Forbidden:
		fmt.Fprintf(a.stderr, "note: %s is not known: Kubernetes does not let this user see that\n", what)
	case sdk.TimedOut:
		fmt.Fprintf(a.stderr, "note: %s is not known: %v\n", what, err)
	default:
		_, _ = said.WriteTo(a.stderr)
	}
	return out, err == nil
}

// kubectl runs the user's own, whose context and ways to log in are those by which the cluster is reached. What it has to say it says
// itself, and may ask on the terminal.
func (a *app) kubectl(ctx context.Context, at installed, args ...string) ([]byte, error) {
	return a.runKubectl(ctx, at, a.stderr, args...)
}

func (a *app) runKubectl(ctx context.Context, at installed, stderr io.Writer, args ...string) ([]byte, error) {
	run := exec.CommandContext(ctx, "kubectl", append([]string{"--namespace", at.namespace}, args...)...)
	var out, said bytes.Buffer
	run.Stdin, run.Stdout, run.Stderr = os.Stdin, &out, io.MultiWriter(stderr, &said)
	run.WaitDelay = time.Second
	err := run.Run()
	isSaid := func(signs ...string) bool {
		for _, sign := range signs {
			if strings.Contains(said.String(), sign) {
				return true
			}
		}
		return false
	}
	called := "kubectl " + strings.Join(args[:2], " ")
	switch {
	case err == nil:
		return out.Bytes(), nil
	case errors.Is(err, exec.ErrNotFound):
		return nil, usageError{errors.New("kubectl is not on the PATH, by which --kubernetes asks: install it, with a context for the cluster")}
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return nil, &sdk.Error{Code: sdk.TimedOut, Message: fmt.Sprintf("%s had no answer in time (--timeout %v)", called, a.timeout)}
	case ctx.Err() != nil:
		return nil, errInterrupted
	case isSaid("(Forbidden)", "(Unauthorized)", "You must be logged in"):
		return nil, &sdk.Error{Code: sdk.Forbidden, Message: fmt.Sprintf("Kubernetes does not let this user %s in the namespace %s", strings.Join(args[:2], " "), at.namespace)}
	case isSaid("Unable to connect", "The connection to the server", "timeout", "no such host"):
		return nil, &sdk.Error{Code: sdk.Unavailable, Message: called + " reaches no API server: is its context the right one? (kubectl config current-context)"}
	}
	return nil, fmt.Errorf("%s: %w", called, err)
}
