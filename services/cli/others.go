package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/version"
	"github.com/groupcast/groupcast/sdk"
)

var agentColumns = []column[sdk.Agent]{
	{title: "NAME", cell: func(a sdk.Agent) string { return a.Name }},
	{title: "NODE", cell: func(a sdk.Agent) string { return a.Node }},
	{title: "CLUSTER", cell: func(a sdk.Agent) string { return cmp.Or(a.Cluster, a.Zone) }},
	{title: "STATE", cell: func(a sdk.Agent) string { return a.State }},
	{title: "LINKS", cell: func(a sdk.Agent) string { return fmt.Sprint(a.Links) }},
	{title: "DELIVERIES", cell: deliveriesAt},
	{title: "CACHE", cell: func(a sdk.Agent) string { return bytesize.Short(a.CacheUsed) + " of " + bytesize.Short(a.CacheLimit) }},
	{title: "AGE", cell: func(a sdk.Agent) string { return age(a.Registered) }},
	{title: "HOLDS", wide: true, cell: held},
	{title: "ZONE", wide: true, cell: func(a sdk.Agent) string { return a.Zone }},
	{title: "ADDRESSES", wide: true, cell: func(a sdk.Agent) string { return join(a.Addresses) }},
	{title: "LABELS", wide: true, cell: func(a sdk.Agent) string { return labels(a.Labels) }},
	{title: "INCARNATION", wide: true, cell: func(a sdk.Agent) string { return fmt.Sprint(a.Incarnation) }},
}

// outlined is of how many deliveries the managers tell in a list of agents.
const outlined = 32

func deliveriesAt(a sdk.Agent) string {
	if len(a.Deliveries) >= outlined {
		return fmt.Sprintf("%d or more", outlined)
	}
	return fmt.Sprint(len(a.Deliveries))
}

// heldMost is how many deliveries of an agent are listed; JSON has all.
const heldMost = 4

// held lists the deliveries at an agent of which it has something, or feeds somebody: how much of each it has, and for how many.
func held(a sdk.Agent) string {
	var all []string
	for _, d := range a.Deliveries {
		if d.Held > 0 || d.Children > 0 {
			all = append(all, fmt.Sprintf("%.8s: %s for %d", d.ID, bytesize.Short(d.Held), d.Children))
		}
	}
	if more := len(all) - heldMost; more > 0 {
		all = append(all[:heldMost], fmt.Sprintf("%d more", more))
	}
	return strings.Join(all, "; ")
}

func (a *app) agentCommand() *cobra.Command {
	agent := &cobra.Command{Use: "agent", Short: "See the session agents, which cache what is delivered and pass it on", Aliases: []string{"agents"}}
	agent.AddCommand(&cobra.Command{
		Use: "list", Short: "List the session agents", Aliases: []string{"ls"}, Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return a.call(command, func(ctx context.Context, client *sdk.Client) error {
				agents, err := client.Agents(ctx)
				if err != nil {
					return err
				}
				return printList(a, agents, agentColumns)
			})
		},
	}, a.agentDistances())
	return agent
}

// distance is how far one agent is from another.
type distance struct {
	Agent   string `json:"agent"`
	Cluster string `json:"cluster,omitempty"`
	To      string `json:"to"`
	Time    string `json:"time"`
}

var distanceColumns = []column[distance]{
	{title: "AGENT", cell: func(d distance) string { return d.Agent }},
	{title: "CLUSTER", cell: func(d distance) string { return d.Cluster }},
	{title: "TO", cell: func(d distance) string { return d.To }},
	{title: "ROUND-TRIP", cell: func(d distance) string { return d.Time }},
}

func (a *app) agentDistances() *cobra.Command {
	return &cobra.Command{
		Use: "distances [NAME]", Short: "List the round trips that agents have measured to each other, the nearest first", Args: cobra.MaximumNArgs(1),
		Long: "Lists the round trips that agents have measured to each other, of each the nearest first;\nwith a name, those of that agent.",
		RunE: func(command *cobra.Command, args []string) error {
			return a.call(command, func(ctx context.Context, client *sdk.Client) error {
				agents, err := client.Agents(ctx)
				if err != nil {
					return err
				}
				isAgent := func(agent sdk.Agent) bool { return agent.Name == args[0] }
				if len(args) > 0 && !slices.ContainsFunc(agents, isAgent) {
					return &sdk.Error{Code: sdk.NotFound, Message: fmt.Sprintf("there is no agent %s", args[0])}
				}
				var all []distance
				for _, agent := range agents {
					if len(args) > 0 && args[0] != agent.Name {
						continue
					}
					for _, one := range agent.RoundTrips {
						all = append(all, distance{agent.Name, agent.Cluster, one.Agent, one.Time.String()})
					}
				}
				return printList(a, all, distanceColumns)
			})
		},
	}
}

func (a *app) tokenCommand() *cobra.Command {
	token := &cobra.Command{Use: "token", Short: "Make join tokens"}
	var asked sdk.Token
	create := &cobra.Command{
		Use: "create NAME", Short: "Make a join token: it can be exchanged once, within 10 minutes, for an identity", Args: cobra.ExactArgs(1),
		Example: "  groupcast token create node-7 --group models\n  groupcast token create agent-3 --role agent",
		RunE: func(command *cobra.Command, args []string) error {
			asked.Name = args[0]
			return a.call(command, func(ctx context.Context, client *sdk.Client) error {
				text, lifetime, err := client.CreateToken(ctx, asked)
				if err != nil {
					return err
				}
				for _, group := range asked.Groups {
					if _, err := client.Group(ctx, group); sdk.CodeOf(err) == sdk.NotFound && group != "*" {
						fmt.Fprintf(a.stderr, "note: there is no group %s so far\n", group)
					}
				}
				fmt.Fprintf(a.stderr, "for %s %s, once, within %v: %s\n", asked.Role, asked.Name, lifetime, tokenUse(asked.Role))
				if done, err := a.printData(map[string]string{"token": text}); done {
					return err
				}
				_, err = fmt.Fprintln(a.stdout, text)
				return err
			})
		},
	}
	create.Flags().StringVar(&asked.Role, "role", "member", "member, agent, gatherer, replicator or operator")
	create.Flags().StringSliceVar(&asked.Groups, "group", nil, "for a member: groups that it may join, one at least; '*' stands for all")
	create.Flags().DurationVar(&asked.Lifetime, "lifetime", 10*time.Minute, "how long the token can be used, 10 minutes at most")
	token.AddCommand(create)
	return token
}

// tokenUse is what is done with a token: services enroll by themselves.
func tokenUse(role string) string {
	switch role {
	case "agent", "gatherer", "replicator":
		return "groupcast-" + role + " --managers HOST:PORT --join-token-file FILE, which has the token in it"
	}
	return "groupcast enroll --endpoint HOST:PORT --token-file FILE, which has the token in it; - is standard input"
}

func (a *app) identityCommand() *cobra.Command {
	identity := &cobra.Command{Use: "identity", Short: "Revoke identities, and let pods in again"}
	identity.AddCommand(&cobra.Command{
		Use: "revoke ROLE/NAME", Short: "Refuse all certificates of an identity, and end its sessions", Args: cobra.ExactArgs(1),
		Example: "  groupcast identity revoke member/node-7",
		RunE: func(command *cobra.Command, args []string) error {
			role, name, err := splitIdentity(args[0])
			if err != nil {
				return err
			}
			return a.call(command, func(ctx context.Context, client *sdk.Client) error {
				known := a.isKnown(ctx, client, role, name) // before its sessions are ended
				if err := client.Revoke(ctx, role, name); err != nil {
					return err
				}
				if !known {
					fmt.Fprintf(a.stderr, "warning: the managers know no %s %s at present: it has stopped, or has another name\n", role, name)
				}
				fmt.Fprintf(a.stderr, "%s revoked: whoever has a certificate of that name is refused, and a new join token lets it back in; pods of Kubernetes, 'groupcast identity admit'\n", args[0])
				return nil
			})
		},
	}, a.admitCommand())
	return identity
}

// byAccount are the roles of those that Kubernetes can vouch for.
var byAccount = []string{"agent", "gatherer", "replicator", "member"}

func (a *app) admitCommand() *cobra.Command {
	var groups []string
	admit := &cobra.Command{
		Use: "admit ROLE/NAME", Short: "Let pods of an identity that was revoked in again by their ServiceAccount", Args: cobra.ExactArgs(1),
		Long: `Lets pods of an identity that was revoked in again by their ServiceAccount, as agents, gatherers,
replicators and members on Kubernetes are. All others come back with a new join token (groupcast token create).`,
		Example: "  groupcast identity admit agent/node-7\n  groupcast identity admit member/training-publisher-d2d9e5da --group models",
		RunE: func(command *cobra.Command, args []string) error {
			role, name, err := splitIdentity(args[0])
			if err != nil {
				return err
			}
			if !slices.Contains(byAccount, role) {
				return usageError{fmt.Errorf("%q is not the role of pods: want one of %s", role, strings.Join(byAccount, ", "))}
			}
			return a.call(command, func(ctx context.Context, client *sdk.Client) error {
				if err := client.Admit(ctx, role, name, groups...); err != nil {
					return err
				}
				fmt.Fprintf(a.stderr, "%s admitted: its ServiceAccount lets its pods in again, which try by themselves\n", args[0])
				return nil
			})
		},
	}
	admit.Flags().StringSliceVar(&groups, "group", nil, "for a member: groups that it may join until its next pod gets in, one at least; '*' stands for all")
	return admit
}

// splitIdentity reads ROLE/NAME.
func splitIdentity(text string) (role, name string, err error) {
	role, name, ok := strings.Cut(text, "/")
	if !ok {
		return "", "", usageError{fmt.Errorf("%q is not ROLE/NAME, as in member/node-7", text)}
	}
	return role, name, nil
}

// isKnown reports whether the managers know somebody of a name now; true where they cannot tell.
func (a *app) isKnown(ctx context.Context, client *sdk.Client, role, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, a.timeout/2)
	defer cancel()
	switch role {
	case "agent":
		all, err := client.Agents(ctx)
		return err != nil || slices.ContainsFunc(all, func(one sdk.Agent) bool { return one.Name == name })
	case "gatherer":
		all, err := client.Gatherers(ctx)
		return err != nil || slices.ContainsFunc(all, func(one sdk.Gatherer) bool { return one.Name == name })
	case "replicator":
		all, err := client.Replicators(ctx)
		return err != nil || slices.ContainsFunc(all, func(one sdk.Replicator) bool { return one.Name == name })
	case "member":
		return isInGroup(ctx, client, name)
	}
	return true
}

// isInGroup reports whether a member is in a group, be it in a session in which it only pushes; true where nobody can tell.
func isInGroup(ctx context.Context, client *sdk.Client, name string) bool {
	groups, err := client.Groups(ctx)
	for _, group := range groups {
		members, failed := client.Members(ctx, group.Name)
		if failed != nil || slices.ContainsFunc(members, func(one sdk.Member) bool { return one.Name == name || strings.HasPrefix(one.Name, name+".") }) {
			return true
		}
	}
	return err != nil
}

// enrollment is what the enroll command was asked for.
type enrollment struct {
	config    sdk.Config
	token     string
	tokenFile string // "-" is standard input
	replace   bool
}

func (a *app) enrollCommand() *cobra.Command {
	var e enrollment
	command := &cobra.Command{
		Use: "enroll --endpoint HOST:PORT --token-file FILE", Short: "Exchange a join token, or a pod's, for an identity, and write a configuration that uses it", Args: cobra.NoArgs,
		Long: `Exchanges a join token for an identity. The configuration is written to the file
that --config names, else groupcast/config.yaml in the user's configuration
directory (not to GROUPCAST_CONFIG, which may be an operator's); key and certificate lie
in a directory beside it, and are renewed by the commands that use them.

All users of a machine can read what a command was called with, while it runs: give
the token in a file, or by standard input (--token-file -), where there are others.

A pod of Kubernetes whose ServiceAccount the managers know shows its token in place of a join token. It may enroll
again and again, and the commands that use the configuration do so by themselves when the certificate has expired.`,
		Example: "  groupcast enroll --endpoint manager:7400 --token-file -        # and paste it\n  groupcast enroll --endpoint groupcast-manager.groupcast.svc:7400 --service-account-token-file /var/run/groupcast-identity/token --authority-file /var/run/groupcast-identity/ca.crt",
	}
	flags := command.Flags()
	flags.StringSliceVar(&e.config.Endpoints, "endpoint", nil, "the managers' gRPC ports, as manager:7400")
	flags.StringVar(&e.tokenFile, "token-file", "", "file with a join token, from 'groupcast token create'; - is standard input")
	flags.StringVar(&e.token, "token", "", "the join token itself, where no other user of this machine is to be kept from it")
	flags.StringVar(&e.config.ServiceAccountTokenFile, "service-account-token-file", "", "in a pod: file with a token of its ServiceAccount for the managers' audience")
	flags.StringVar(&e.config.AuthorityFile, "authority-file", "", "certificate of the managers' CA, which that token is shown to")
	flags.BoolVar(&e.replace, "replace", false, "take the place of the identity that an earlier enroll has left there")
	flags.StringVar(&e.config.TrustDomain, "trust-domain", sdk.DefaultTrustDomain, "domain of all identities, as identity.trustDomain of the managers says")
	if err := command.MarkFlagRequired("endpoint"); err != nil {
		panic("cli: " + err.Error())
	}
	command.RunE = func(command *cobra.Command, _ []string) error {
		if err := e.check(command.Flags().Changed("token")); err != nil {
			return usageError{err}
		}
		file := a.config
		if file == "" {
			var err error
			if file, err = defaultConfigFile(); err != nil {
				return usageError{err}
			}
		}
		return a.enroll(command.Context(), e, file)
	}
	return command
}

// check says what is wrong with the tokens, of which one has to be there.
func (e enrollment) check(hasToken bool) error {
	isPod, hasFile := e.config.ServiceAccountTokenFile != "", e.tokenFile != ""
	switch {
	case hasToken && hasFile:
		return errors.New("--token and --token-file: name one")
	case hasToken && isPod:
		return errors.New("--token and --service-account-token-file: name one")
	case hasFile && isPod:
		return errors.New("--token-file and --service-account-token-file: name one")
	case isPod != (e.config.AuthorityFile != ""):
		return errors.New("--service-account-token-file and --authority-file go together")
	case !hasToken && !hasFile && !isPod:
		return errors.New("name a file with a join token with --token-file, or in a pod of Kubernetes its own with --service-account-token-file")
	case hasToken && strings.TrimSpace(e.token) == "":
		return errors.New("--token is empty: want what 'groupcast token create' writes")
	}
	return nil
}

// enroll gets an identity and writes the configuration that uses it.
func (a *app) enroll(ctx context.Context, e enrollment, file string) error {
	config, credentials := e.config, strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))+".credentials"
	if err := e.mayGoInto(file, credentials); err != nil {
		return usageError{err}
	}
	config.Renew = true
	config.CredentialsDir = filepath.Join(filepath.Dir(file), credentials)
	if err := cmp.Or(absolute(&config.ServiceAccountTokenFile), absolute(&config.AuthorityFile), config.Validate()); err != nil {
		return usageError{err}
	}
	a.expect(config, "--endpoint")
	if err := identity.CheckWritable(filepath.Dir(file)); err != nil { // a token that is used up is of no use again
		return unusable(fmt.Errorf("write configuration: %w", err))
	}
	if err := a.readToken(ctx, &e); err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	name, err := e.exchange(within, config)
	if err != nil {
		return err
	}
	config.CredentialsDir = credentials
	if err := config.Write(file); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	fmt.Fprintf(a.stderr, "enrolled as %s; configuration in %s\n", name, file)
	if other := os.Getenv("GROUPCAST_CONFIG"); other != "" && other != file {
		fmt.Fprintf(a.stderr, "note: commands still use GROUPCAST_CONFIG=%s until it is unset\n", other)
	}
	return nil
}

// readToken reads the join token out of its file, or the first line of standard input, which a person ends by a key.
func (a *app) readToken(ctx context.Context, e *enrollment) error {
	var text []byte
	var err error
	switch e.tokenFile {
	case "":
		return nil
	case "-":
		if term.IsTerminal(int(os.Stdin.Fd())) {
			fmt.Fprint(a.stderr, "join token: ")
		}
		if text, err = bufio.NewReader(&until{ctx, os.Stdin}).ReadBytes('\n'); errors.Is(err, io.EOF) {
			err = context.Cause(ctx)
		}
	default:
		if text, err = os.ReadFile(e.tokenFile); err == nil && identity.Exposed(e.tokenFile) {
			fmt.Fprintf(a.stderr, "warning: every user of this machine can read the join token in %s, and be let in by it first: chmod 600 it\n", e.tokenFile)
		}
	}
	if err != nil {
		return unusable(fmt.Errorf("read join token: %w", err))
	}
	if e.token = string(bytes.TrimSpace(text)); e.token == "" {
		return usageError{errors.New("--token-file is empty: want in it what 'groupcast token create' writes")}
	}
	return nil
}

// exchange exchanges the token that there is.
func (e enrollment) exchange(ctx context.Context, config sdk.Config) (identity string, err error) {
	if config.ServiceAccountTokenFile != "" {
		return sdk.EnrollPod(ctx, config)
	}
	// A service's token would be used up, and be of no use here.
	for _, role := range []string{"member", "operator"} {
		var refused *sdk.Error
		identity, err = sdk.EnrollAs(ctx, config, role, e.token)
		if !errors.As(err, &refused) || refused.Reason != "TOKEN_ROLE" {
			break
		}
	}
	return identity, err
}

// absolute makes a name independent of where the command was called.
func absolute(name *string) (err error) {
	if *name != "" {
		*name, err = filepath.Abs(*name)
	}
	return err
}

// mayGoInto says why a configuration is not replaced. A token can be used once, and a key that is gone is gone; a pod
// gets in again by the same token.
func (e enrollment) mayGoInto(file, credentials string) error {
	there, err := sdk.ReadConfig(file)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		return nil
	case filepath.Base(there.CredentialsDir) != credentials:
		return fmt.Errorf("%s is there already, and not from enroll: name another file with --config, or remove it", file)
	case e.replace || there.ServiceAccountTokenFile != "":
		return nil
	}
	there.Renew = false
	client, err := sdk.Dial(there)
	if err != nil {
		return nil // it is of no use to anybody
	}
	defer client.Close()
	identity, err := client.Identity()
	if err != nil {
		return nil
	}
	return fmt.Errorf("%s has the identity %s: name another file with --config, or have it replaced with --replace", file, identity)
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Show the version of this command", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if done, err := a.printData(map[string]string{"version": version.String()}); done {
				return err
			}
			_, err := fmt.Fprintln(a.stdout, "groupcast", version.String())
			return err
		},
	}
}
