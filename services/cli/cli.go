// Package cli is the groupcast command. It does everything through the SDK, so that a program can do
// whatever the command can.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/groupcast/groupcast/internal/interrupt"
	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/internal/printable"
	"github.com/groupcast/groupcast/internal/version"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/sdk/gather"
)

// Exit statuses. They are documented in the help text and in docs/cli.md.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitPartial     = 3
	exitNotFound    = 4
	exitForbidden   = 5
	exitUnavailable = 6
	exitDamaged     = 7
	exitInterrupted = 130
)

const about = `groupcast moves bytes between groups of machines.

It reads how to reach the managers, and as whom, from a YAML file: the one that
--config names, else GROUPCAST_CONFIG, else groupcast/config.yaml in the user's
configuration directory ($XDG_CONFIG_HOME, else ~/.config). A standalone server
writes one into its data directory; 'groupcast enroll' makes one from a join token.

Data goes to standard output, everything else to standard error. The exit status is
  0 ok                3 partly done      6 unavailable or out of time
  1 failed            4 not found        7 content damaged
  2 called wrongly    5 not allowed      130 interrupted`

const firstSteps = `  groupcast-standalone --data /srv/groupcast &     # a server with all that it takes; wait until it is ready
  export GROUPCAST_CONFIG=/srv/groupcast/admin.yaml
  groupcast group create models
  groupcast pull --group models --into received &
  groupcast push model.bin --group models --wait 1 # until one receives`

// app is one invocation.
type app struct {
	stdout, stderr io.Writer
	config         string
	output         string
	timeout        time.Duration
	debug          bool
	gathererAt     string                 // which gatherer is asked; empty before
	managers       string                 // where they are expected to be; empty before they are asked
	saidBy         string                 // the file, or the flag, that says where managers are
	inPods         bool                   // whether they seem to be pods of Kubernetes
	as             sdk.Config             // by which managers are called
	session        *sdk.Session           // the last that was begun; nil before
	why            atomic.Pointer[string] // why nothing is done, by what a manager has said; empty if it gave no reason
	shown          atomic.Pointer[screen] // where progress is drawn; nil before it is
}

// Main runs the command and returns its exit status.
func Main(args []string, stdout, stderr io.Writer) int {
	a := &app{stdout: stdout, stderr: stderr}
	root := a.root()
	if strings.HasPrefix(filepath.Base(args[0]), "kubectl-") {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl groupcast"}
		root.Example = "" // it is for a shell
		a.inPods = true
	}
	root.SetArgs(args[1:])
	root.SetOut(stdout)
	root.SetErr(stderr)
	ctx, stop := interrupt.Context()
	defer stop()
	defer context.AfterFunc(ctx, func() {
		time.Sleep(oneInterrupt)
		stop() // if ctx does not end the command, the next interrupt does
	})()
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	var reported *sdk.Error
	if errors.As(err, &reported) && reported.Reason == "REVOKED" {
		_ = a.as.Discard() // it may be let in again
	}
	status := exitStatus(err)
	if status != exitInterrupted {
		fmt.Fprintf(stderr, "groupcast: %s%s\n", printable.Lines(inFlags(command, err)), a.hint(err))
	}
	return status
}

// oneInterrupt is how long further interrupts count as the first one: timeout(1) sends two, and so does a terminal that is closed.
const oneInterrupt = time.Second

// hint returns what may help if an error does not say it.
func (a *app) hint(err error) string {
	var reported *sdk.Error
	switch {
	case errors.Is(err, gather.ErrFenced):
		return ": give each a name of its own (--as)"
	case !errors.As(err, &reported):
	case reported.Reason == "NO_RECEIVERS":
		return ": nothing was sent. Members receive with groupcast pull; push --wait N waits until N do"
	case reported.Reason == "DENIED" && strings.HasSuffix(err.Error(), "(it is for operators)"):
		return ": --config names an operator's configuration"
	case reported.Reason == "GROUP_IN_USE":
		return " (--force)"
	case reported.Reason == sdk.NoManager && a.managers != "":
		return fmt.Sprintf(" (%s says where; --timeout %v)", a.saidBy, a.timeout)
	case reported.Reason != "": // somebody has answered
	case a.gathererAt != "" && (reported.Code == sdk.Unavailable || reported.Code == sdk.TimedOut):
		return fmt.Sprintf(": is a gatherer at %s? --to or %s names one, and 'groupcast gatherer list' shows them", a.gathererAt, gathererVariable)
	case a.managers != "" && reported.Code == sdk.TimedOut:
		if why := a.why.Load(); why != nil && *why != "" {
			return ": " + *why
		}
		return fmt.Sprintf(": is a manager at %s? (--timeout %v)", a.managers, a.timeout)
	case a.managers != "" && reported.Code == sdk.Unavailable:
		return fmt.Sprintf(": is a manager at %s?", a.managers)
	}
	return ""
}

// whyTime is how long before the end of a call a manager is asked why nothing is done: it may ask the leader for 2 s.
const whyTime = 3 * time.Second

// within bounds a call. Shortly before its time is over, it asks a manager why nothing is done, so that the error can say so: asking
// after that would take longer than the call may.
func (a *app) within(ctx context.Context, client *sdk.Client) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	go func() {
		if !pause.For(ctx, a.timeout-min(whyTime, a.timeout/2)) {
			return
		}
		if status, err := client.Status(ctx); err == nil {
			a.why.Store(&status.ReadOnlyReason)
		}
	}()
	return ctx, cancel
}

// nobody has the reasons which say that nothing has begun, as nobody is there to receive, to send, or to pass it on.
var nobody = []string{"NO_RECEIVERS", "NO_REPLICAS", "NO_SENDER", "REPLICATOR_OFFLINE", "NO_AGENT"}

func isNobody(err error) bool {
	var reported *sdk.Error
	return errors.As(err, &reported) && slices.Contains(nobody, reported.Reason)
}

// isForbidden reports whether an error says that the caller may not do something: for who it is, or by the group's policy.
func isForbidden(err error) bool {
	var reported *sdk.Error
	return errors.As(err, &reported) && (reported.Code == sdk.Forbidden || slices.Contains([]string{"ROLE_NOT_ALLOWED", "RELAY_NOT_ALLOWED"}, reported.Reason))
}

// usageError says that the command was called wrongly.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// unusable says what is wrong with a file or a directory that was named. It is a usage error only if nothing of that name exists or can
// exist, as on a disk that is not mounted. Other failures, as of a disk that is full or read-only, may pass: systemd starts the command
// again after those.
func unusable(err error) error {
	var number syscall.Errno
	wrong := []syscall.Errno{syscall.ENOENT, syscall.ENOTDIR, syscall.EISDIR, syscall.ENAMETOOLONG, syscall.ELOOP, syscall.EINVAL}
	if errors.As(err, &number) && !slices.Contains(wrong, number) {
		return sdk.Because(sdk.Failed, err)
	}
	return usageError{err}
}

var (
	errInterrupted     = errors.New("interrupted")
	errPartial         = errors.New("not everybody has it")
	errNoConfiguration = errors.New("no configuration")
)

// isDamaged reports whether other bytes came than were sent, by a delivery or an upload.
func isDamaged(err error) bool {
	var failed *sdk.DeliveryError
	var reported *sdk.Error
	return errors.As(err, &failed) && failed.Reason == "damaged" || errors.As(err, &reported) && reported.Reason == "DAMAGED"
}

func exitStatus(err error) int {
	var usage usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	if errors.Is(err, errInterrupted) {
		return exitInterrupted
	}
	if errors.Is(err, errPartial) {
		return exitPartial
	}
	if isDamaged(err) {
		return exitDamaged
	}
	if isNobody(err) || errors.Is(err, errNoDelivery) || errors.Is(err, errNoReplication) {
		return exitNotFound
	}
	if isForbidden(err) {
		return exitForbidden
	}
	switch sdk.CodeOf(err) {
	case sdk.InvalidArgument:
		return exitUsage
	case sdk.NotFound:
		return exitNotFound
	case sdk.Unavailable, sdk.TimedOut:
		return exitUnavailable
	case sdk.Interrupted:
		return exitInterrupted
	}
	return exitFailed
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use: "groupcast", Short: "Move bytes between groups of machines", Long: about, Example: firstSteps,
		SilenceErrors: true, SilenceUsage: true,
	}
	flags := root.PersistentFlags()
	flags.StringVar(&a.config, "config", "", "file that says how to reach the managers, and as whom (GROUPCAST_CONFIG, else groupcast/config.yaml in the user's configuration directory)")
	flags.StringVarP(&a.output, "output", "o", "table", "how data is written: table, wide, json or yaml")
	flags.DurationVar(&a.timeout, "timeout", 15*time.Second, "how long a call may take; watches and sessions are not bounded")
	flags.BoolVar(&a.debug, "debug", false, "log to standard error what is healed, and what each link carried")
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		if a.timeout <= 0 {
			return usageError{fmt.Errorf("--timeout %v leaves no time for a call", a.timeout)}
		}
		return a.checkOutput()
	}
	root.SetFlagErrorFunc(func(command *cobra.Command, err error) error {
		if command.HasSubCommands() { // the flag may be one of a command that is misspelt
			err = cmp.Or(unknownCommand(command, command.Flags().Args()), err)
		}
		return usageError{fmt.Errorf("%w (see '%s --help')", unread(err), command.CommandPath())}
	})
	root.AddCommand(a.pushCommand(), a.pullCommand(), a.uploadCommand(), a.gatherCommand(), a.replicateCommand(), a.deliveryCommand(), a.replicationCommand(), a.groupCommand(), a.memberCommand(), a.agentCommand(), a.gathererCommand(), a.replicatorCommand(), a.joinCommand(),
		a.tokenCommand(), a.identityCommand(), a.enrollCommand(), a.somaCommand(), a.statusCommand(), a.checkCommand(), a.versionCommand())
	root.InitDefaultCompletionCmd() // now, so that it is marked with the others
	markUsageErrors(root)
	markUnknownHelp(root)
	a.complete(root)
	return root
}

// markUsageErrors makes a wrong number of arguments, a missing flag, or an unknown command a usage error.
func markUsageErrors(command *cobra.Command) {
	check := takes(command.Args)
	if command.Args == nil && command.HasSubCommands() {
		check = unknownCommand
	}
	command.Args = func(command *cobra.Command, args []string) error {
		if err := cmp.Or(check(command, args), command.ValidateRequiredFlags()); err != nil {
			return usageError{fmt.Errorf("%w (see '%s --help')", err, command.CommandPath())}
		}
		return nil
	}
	if command.HasSubCommands() && command.RunE == nil {
		command.RunE = func(command *cobra.Command, _ []string) error { return command.Help() }
	}
	for _, below := range command.Commands() {
		markUsageErrors(below)
	}
}

// takes adds to an error about a command's arguments how the command is called.
func takes(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		if check == nil || check(command, args) == nil {
			return nil
		}
		wants := command.CommandPath()
		if _, placeholders, has := strings.Cut(command.Use, " "); has {
			wants += " " + placeholders
		}
		if len(args) == 0 {
			return fmt.Errorf("it is called as %s", wants)
		}
		return fmt.Errorf("it is called as %s, not with '%s'", wants, strings.Join(args, " "))
	}
}

// client connects to the managers.
func (a *app) client(ctx context.Context) (*sdk.Client, error) {
	config, file, err := a.readConfig(ctx)
	if err != nil {
		return nil, err
	}
	options := []sdk.Option{sdk.WithAway(a.sayAway), sdk.WithUnwritten(a.unwritten(config.CredentialsDir))}
	if a.debug {
		options = append(options, sdk.WithLog(slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	}
	client, err := sdk.Dial(config, options...)
	if isForbidden(err) {
		return nil, err
	}
	if err != nil {
		return nil, unusable(err)
	}
	a.expect(config, file)
	return client, nil
}

// expect notes where managers are to be.
func (a *app) expect(config sdk.Config, file string) {
	a.as, a.saidBy, a.managers = config, file, strings.Join(config.Endpoints, ", ")+", as "+file+" says"
	a.inPods = a.inPods || os.Getenv("KUBERNETES_SERVICE_HOST") != "" || slices.ContainsFunc(config.Endpoints, isService)
}

// isService reports whether an endpoint has the name of a Kubernetes service, as groupcast-manager.NAMESPACE.svc:7400.
func isService(endpoint string) bool {
	host, _, _ := strings.Cut(endpoint, ":")
	return slices.Contains(strings.Split(host, "."), "svc")
}

// answerPatience is how long a manager may take to answer before the command says that it waits for one.
const answerPatience = 1500 * time.Millisecond

// sayWaiting tells the user, until it is stopped, that the command waits for a manager that does not answer.
func (a *app) sayWaiting(client *sdk.Client) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		const look = 100 * time.Millisecond
		for waited := time.Duration(0); waited < answerPatience; waited += look {
			if !pause.For(ctx, look) || client.Connected() {
				return
			}
			if !client.Connecting() { // no manager was called so far
				waited = 0
			}
		}
		why := ""
		if err := client.HandshakeError(); err != nil {
			why = ": " + printable.Text(err.Error())
		}
		fmt.Fprintf(a.stderr, "no manager has answered yet; there should be one at %s%s\n", a.managers, why)
	}()
	return cancel
}

// awaySaid is how long it may take to say what is wrong, as that no manager is heard. Standard error may be stopped, as by ^S, and the
// session has to go on all the same.
const awaySaid = 100 * time.Millisecond

// sayAway tells the user why nothing new is shown, and when that is over.
func (a *app) sayAway(since time.Time) { a.sayBeside(a.awayLine(since)) }

// unwritten returns what tells the user that a renewed certificate cannot be written to a directory. The command itself goes on with it.
func (a *app) unwritten(dir string) func(why error, lapses time.Time) {
	return func(why error, lapses time.Time) {
		var where *fs.PathError
		if errors.As(why, &where) { // a file that nobody has to know
			why = where.Err
		}
		a.sayBeside(fmt.Sprintf("warning: the renewed certificate cannot be written to %s: %s; commands are refused from %s on if it stays so",
			dir, printable.Text(why.Error()), lapses.Local().Format("15:04")))
	}
}

// sayBeside says something while other things go on.
func (a *app) sayBeside(line string) {
	said := make(chan struct{})
	go func() {
		defer close(said)
		if shown := a.shown.Load(); shown != nil {
			shown.say(line)
			return
		}
		fmt.Fprintln(a.stderr, line)
	}()
	select {
	case <-said:
	case <-time.After(awaySaid):
	}
}

func (a *app) awayLine(since time.Time) string {
	if since.IsZero() {
		return "a manager answers again"
	}
	why := "what is under way goes on, and how it stands is shown again when one answers"
	if lapsed := a.as.Lapsed(); lapsed != nil {
		why = printable.Text(lapsed.Error())
	}
	return fmt.Sprintf("nothing is heard of the managers since %s: %s", since.Format(time.TimeOnly), why)
}

// readConfig reads the configuration, and enrolls a pod that has no good credentials. It uses even a key that others can read: in a
// container it may be mounted that way.
func (a *app) readConfig(ctx context.Context) (config sdk.Config, file string, err error) {
	if file, err = a.configFile(); err != nil {
		return sdk.Config{}, "", err
	}
	if config, err = sdk.ReadConfig(file); err != nil {
		return sdk.Config{}, "", unusable(err)
	}
	entering, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	if err := sdk.EnterPod(entering, config); err != nil {
		a.expect(config, file)
		return sdk.Config{}, "", err
	}
	if key := config.ExposedKey(); key != "" {
		fmt.Fprintf(a.stderr, "warning: every user of this machine can read the private key %s: chmod 600 it\n", key)
	}
	return config, file, nil
}

// configFile finds the configuration.
func (a *app) configFile() (string, error) {
	if a.config != "" {
		return a.config, nil
	}
	if file := os.Getenv("GROUPCAST_CONFIG"); file != "" {
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			return "", usageError{fmt.Errorf("%w: GROUPCAST_CONFIG names %s, and there is no such file", errNoConfiguration, file)}
		}
		return file, nil
	}
	file, err := defaultConfigFile()
	if err != nil {
		return "", usageError{err}
	}
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return "", usageError{fmt.Errorf("%w: name one with --config (groupcast-standalone writes DIR/admin.yaml), set GROUPCAST_CONFIG, or make %s with 'groupcast enroll'", errNoConfiguration, file)}
	}
	return file, nil
}

func defaultConfigFile() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("find the user's configuration directory: %w", err)
	}
	return filepath.Join(dir, "groupcast", "config.yaml"), nil
}

// call runs do with a client, within the time that calls may take.
func (a *app) call(command *cobra.Command, do func(ctx context.Context, client *sdk.Client) error) error {
	return a.stay(command, func(ctx context.Context, client *sdk.Client) error {
		ctx, cancel := a.within(ctx, client)
		defer cancel()
		return do(ctx, client)
	})
}

// stay runs do with a client for as long as it takes.
func (a *app) stay(command *cobra.Command, do func(ctx context.Context, client *sdk.Client) error) error {
	client, err := a.client(command.Context())
	if err != nil {
		return err
	}
	defer client.Close()
	defer a.sayWaiting(client)()
	err = do(command.Context(), client)
	return a.noGroup(command.Context(), client, a.replaced(command.Context(), client, err))
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
