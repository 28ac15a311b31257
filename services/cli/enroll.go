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
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/sdk"
)

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
that --config names, else to that of GROUPCAST_CONFIG if it is not there yet (what is there
may be an operator's), else to groupcast/config.yaml in the user's configuration directory; key and
certificate lie in a directory beside it, and are renewed by the commands that use them.

All users of a machine can read the arguments of a command while it runs: if there are
others, give the token in a file, or on standard input (--token-file -).

A pod of Kubernetes whose ServiceAccount the managers know shows its token in place of a join token. It may enroll
again and again, and the commands that use the configuration do so by themselves when the certificate has expired.`,
		Example: "  groupcast enroll --endpoint manager:7400 --token-file -        # and paste it\n  groupcast enroll --endpoint groupcast-manager.groupcast.svc:7400 --service-account-token-file /var/run/groupcast-identity/token --authority-file /var/run/groupcast-identity/ca.crt",
	}
	flags := command.Flags()
	flags.StringSliceVar(&e.config.Endpoints, "endpoint", nil, "the managers' gRPC ports, as manager:7400")
	flags.StringVar(&e.tokenFile, "token-file", "", "file with a join token, from 'groupcast token create'; - is standard input")
	flags.StringVar(&e.token, "token", "", "the join token itself, if all users of this machine may know it")
	flags.StringVar(&e.config.ServiceAccountTokenFile, "service-account-token-file", "", "in a pod: file with a token of its ServiceAccount for the managers' audience")
	flags.StringVar(&e.config.AuthorityFile, "authority-file", "", "certificate of the managers' CA, which that token is shown to")
	flags.BoolVar(&e.replace, "replace", false, "replace the identity that an earlier enroll has left there")
	flags.StringVar(&e.config.TrustDomain, "trust-domain", sdk.DefaultTrustDomain, "domain of all identities, as identity.trustDomain of the managers says")
	if err := command.MarkFlagRequired("endpoint"); err != nil {
		panic("cli: " + err.Error())
	}
	command.RunE = func(command *cobra.Command, _ []string) error {
		if err := e.check(command.Flags().Changed("token")); err != nil {
			return usageError{err}
		}
		file, err := a.enrollFile()
		if err != nil {
			return usageError{err}
		}
		return a.enroll(command.Context(), e, file)
	}
	return command
}

// enrollFile returns which file a configuration is written to. Commands use that of GROUPCAST_CONFIG, but one that is there already may be an
// operator's.
func (a *app) enrollFile() (string, error) {
	if a.config != "" {
		return a.config, nil
	}
	if file := os.Getenv("GROUPCAST_CONFIG"); file != "" {
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			return file, nil
		}
	}
	return defaultConfigFile()
}

// check returns what is wrong with the flags for tokens, exactly one of which has to be given.
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
	credentials, err := e.mayGoInto(file)
	if err != nil {
		return usageError{err}
	}
	config := e.config
	config.Renew = true
	config.CredentialsDir = filepath.Join(filepath.Dir(file), credentials)
	if err := cmp.Or(absolute(&config.ServiceAccountTokenFile), absolute(&config.AuthorityFile), config.Validate()); err != nil {
		return usageError{err}
	}
	a.expect(config, "--endpoint")
	if err := identity.CheckWritable(filepath.Dir(file)); err != nil { // the token can be used only once
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
		fmt.Fprintf(a.stderr, "note: commands still use GROUPCAST_CONFIG=%s until it is unset, or --config names another\n", other)
	}
	return nil
}

// readToken reads the join token from its file, or from the first line of standard input, as a user may type it.
func (a *app) readToken(ctx context.Context, e *enrollment) error {
	var text []byte
	var err error
	switch e.tokenFile {
	case "":
		return nil
	case "-":
		if terminal := int(os.Stdin.Fd()); term.IsTerminal(terminal) {
			fmt.Fprint(a.stderr, "join token: ")
			defer a.unseen(terminal)()
		}
		text, err = bufio.NewReader(&until{ctx, os.Stdin}).ReadBytes('\n')
		if err = interrupted(ctx, err); errors.Is(err, errInterrupted) {
			return err
		}
		if errors.Is(err, io.EOF) {
			err = nil
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

// unseen has a terminal not show what is typed, until the returned function is called: who has seen a token can use it first.
func (a *app) unseen(terminal int) (end func()) {
	before, err := unix.IoctlGetTermios(terminal, unix.TCGETS)
	if err != nil {
		return func() {}
	}
	silent := *before
	silent.Lflag &^= unix.ECHO
	_ = unix.IoctlSetTermios(terminal, unix.TCSETS, &silent)
	return func() {
		_ = unix.IoctlSetTermios(terminal, unix.TCSETS, before)
		fmt.Fprintln(a.stderr) // that of the user was not shown
	}
}

// exchange exchanges whichever token was given.
func (e enrollment) exchange(ctx context.Context, config sdk.Config) (identity string, err error) {
	if config.ServiceAccountTokenFile != "" {
		return sdk.EnrollPod(ctx, config)
	}
	// The token of a service would be used up, though its identity is of no use here.
	for _, role := range []string{"member", "operator"} {
		var refused *sdk.Error
		identity, err = sdk.EnrollAs(ctx, config, role, e.token)
		if !errors.As(err, &refused) || refused.Reason != "TOKEN_ROLE" {
			break
		}
	}
	return identity, err
}

// absolute makes a path independent of where the command was called.
func absolute(name *string) (err error) {
	if *name != "" {
		*name, err = filepath.Abs(*name)
	}
	return err
}

// mayGoInto returns the directory beside a configuration that its credentials may go into, or why they may not: a join token can be used
// only once, and a key that is gone is gone. A pod can get in again with the same token.
func (e enrollment) mayGoInto(file string) (credentials string, err error) {
	there, err := sdk.ReadConfig(file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) { // the directory may be another configuration's
		credentials = credentialsBeside(file)
		dir := filepath.Join(filepath.Dir(file), credentials)
		return credentials, e.mayReplace(e.config.ServiceAccountTokenFile, dir, dir)
	}
	credentials = filepath.Base(there.CredentialsDir) // programs that run may use it
	if credentials != credentialsBeside(file) && credentials != earlierBeside(file) {
		return "", fmt.Errorf("%s is there already, and not from enroll: name another file with --config, or remove it", file)
	}
	return credentials, e.mayReplace(there.ServiceAccountTokenFile, there.CredentialsDir, file)
}

// mayReplace returns why the credentials in a directory, if anybody can use them, must not be replaced.
func (e enrollment) mayReplace(podToken, dir, namedBy string) error {
	if e.replace || podToken != "" {
		return nil
	}
	there, err := identity.FilesIn(dir).Credentials()
	if err != nil {
		return nil
	}
	return fmt.Errorf("%s has the identity %s: name another file with --config, or have it replaced with --replace", namedBy, there.ID)
}

// credentialsBeside names the directory of a configuration's credentials after its file: another configuration may lie beside it.
func credentialsBeside(file string) string {
	return strings.TrimSuffix(strings.TrimSuffix(filepath.Base(file), ".yaml"), ".yml") + ".credentials"
}

// earlierBeside is what earlier versions named that directory: site.lab and site.prod had the same.
func earlierBeside(file string) string {
	return strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)) + ".credentials"
}
