package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/groupcast/groupcast/internal/bytesize"
	"github.com/groupcast/groupcast/internal/pause"
	"github.com/groupcast/groupcast/internal/printable"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/sdk/gather"
)

// upload is what the upload command was asked for.
type upload struct {
	to      string
	guessed bool // to is only where a gatherer might be
	as      string
	path    string
	follow  bool
	state   string
	labels  map[string]string

	deadline time.Duration
}

// gathererVariable names the gatherer if --to does not.
const gathererVariable = "GROUPCAST_GATHERER"

// defaultGatherer is where a standalone server gathers.
const defaultGatherer = "127.0.0.1:7420"

func (a *app) uploadCommand() *cobra.Command {
	u := &upload{}
	command := &cobra.Command{
		Use: "upload FILE|DIR|- [--to GATHERER]", Short: "Upload a file, a directory or standard input to a gatherer", Args: cobra.ExactArgs(1),
		Long: `Uploads a file, or all files of a directory, to a gatherer, and ends when they are
on its disk, whole and verified; empty directories are made there. With - it uploads
standard input, and with --follow what is added to a file, as it comes: a stream that was
uploaded under its name earlier goes on.

The gatherer's policy says which rate it gets. Interrupted or cut off, it goes on where it
was: by itself while the command runs, and otherwise when it is called again. It waits for
a gatherer that is named; if none is named, and none answers at the default address, it ends
after --timeout.`,
		Example: "  groupcast upload checkpoint.bin --to gather.example:7420\n  groupcast upload results/ --as node-7\n  sensor | groupcast upload - --name sensor\n  groupcast upload /var/log/app.log --follow",
	}
	flags := command.Flags()
	a.gathererFlags(command, &u.to)
	flags.StringVar(&u.as, "as", "", "the client's name (the name of the identity)")
	flags.StringVar(&u.path, "name", "", "what it is called at the gatherer, as logs/app.log (its own name)")
	flags.BoolVar(&u.follow, "follow", false, "upload what is added to the file, until interrupted")
	flags.StringVar(&u.state, "state", "", "with --follow: the file that remembers which files were read (one below the user's state directory)")
	flags.DurationVar(&u.deadline, "deadline", 0, "how long files may take in all, waiting for the gatherer counted; what came is kept (no limit)")
	addLabels(flags, &u.labels, "labels of the client, as site=a, for policies that trust them")
	command.RunE = func(command *cobra.Command, args []string) error {
		if err := u.check(args[0]); err != nil {
			return usageError{err}
		}
		u.guessed = isGuessed(command)
		outlastReaders()
		return u.inTime(command.Context(), func(ctx context.Context) error {
			client, err := a.awaitGatherer(ctx, u)
			if err != nil {
				return err
			}
			defer client.Close()
			return a.upload(ctx, client, u, args[0])
		})
	}
	return command
}

// check refuses flags that cannot be meant, before it waits for a gatherer.
func (u *upload) check(what string) error {
	switch {
	case u.follow && what == "-":
		return errors.New("--follow is for files: standard input is uploaded as it comes anyway")
	case u.state != "" && !u.follow:
		return errors.New("--state is for --follow: nothing else needs to remember which files were read")
	case what == "-" && u.path == "":
		return errors.New("standard input has no name: give it one with --name")
	case u.deadline < 0:
		return fmt.Errorf("--deadline is %v: want a time, as 10m", u.deadline)
	case u.deadline > 0 && (u.follow || what == "-"):
		return errors.New("--deadline is for files: a stream ends with its source")
	case what == "-":
		return nil
	}
	info, err := os.Stat(what)
	switch {
	case u.follow && errors.Is(err, fs.ErrNotExist):
		return nil // openBook tells whether a file had the name
	case err != nil || !u.follow:
		return err
	case info.IsDir():
		return fmt.Errorf("--follow is for files: %s is a directory", what)
	case !info.Mode().IsRegular():
		return fmt.Errorf("--follow is for files: upload what comes from %s as standard input, with -", what)
	}
	return nil
}

// inTime uploads within the deadline, if there is one.
func (u *upload) inTime(ctx context.Context, do func(context.Context) error) error {
	if u.deadline == 0 {
		return do(ctx)
	}
	late := &sdk.Error{Code: sdk.TimedOut, Reason: "DEADLINE", Message: fmt.Sprintf("not done after %v (--deadline): what came is kept, and the same command goes on from there", u.deadline)}
	within, cancel := context.WithTimeoutCause(ctx, u.deadline, late)
	defer cancel()
	err := do(within)
	if err != nil && errors.Is(context.Cause(within), late) {
		return late
	}
	return err
}

// gathererFlags adds the flag that names the gatherer.
func (a *app) gathererFlags(command *cobra.Command, to *string) {
	command.Flags().StringVar(to, "to", cmp.Or(os.Getenv(gathererVariable), defaultGatherer), "the gatherer: its name, or its gRPC port as host:port ("+gathererVariable+")")
}

// gatherer returns a client of a gatherer. Finding it takes no longer than a call may.
func (a *app) gatherer(ctx context.Context, to string, options gather.Options) (*gather.Client, error) {
	config, file, err := a.readConfig(ctx)
	if err != nil {
		return nil, err
	}
	a.expect(config, file)
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	options.Unwritten = a.unwritten(config.CredentialsDir)
	client, err := gather.Dial(ctx, config, to, options)
	if err == nil {
		a.gathererAt = to
	}
	return client, err
}

// managersPause is how long to wait before asking managers again where a gatherer is.
const managersPause = time.Second

// awaitGatherer returns a client of the gatherer that an upload is for. It waits while no manager says where that is.
func (a *app) awaitGatherer(ctx context.Context, u *upload) (*gather.Client, error) {
	var said time.Time
	for {
		client, err := a.gatherer(ctx, u.to, gather.Options{As: u.as, Labels: u.labels})
		if code := sdk.CodeOf(err); ctx.Err() != nil || code != sdk.Unavailable && code != sdk.TimedOut {
			return client, interrupted(ctx, err)
		}
		if time.Since(said) >= samePause {
			said = time.Now()
			fmt.Fprintf(a.stderr, "groupcast: %s; trying again%s\n", printable.Text(err.Error()), a.hint(err))
		}
		if !pause.For(ctx, managersPause) {
			return nil, interrupted(ctx, err)
		}
	}
}

func (a *app) upload(ctx context.Context, client *gather.Client, u *upload, what string) error {
	shown := newUploading(a)
	defer shown.end()
	if u.guessed {
		shown.guess = &guess{patience: a.timeout}
	}
	return cmp.Or(shown.guess.why(a.uploadAny(ctx, client, u, shown, what)), shown.unwritten)
}

// uploadAny uploads a file, a directory or a stream.
func (a *app) uploadAny(ctx context.Context, client *gather.Client, u *upload, shown *uploading, what string) error {
	switch {
	case what == "-":
		return a.uploadStream(ctx, client, u, shown, func(offset uint64) (io.Reader, error) {
			shown.goesOn(u.path, offset)
			return os.Stdin, nil
		})
	case u.follow:
		return a.uploadFollowed(ctx, client, u, shown, what)
	}
	info, err := os.Stat(what)
	if err != nil {
		return usageError{err}
	}
	options := gather.FileOptions{Path: u.path, Progress: shown.show}
	uploading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	shown.endsBy(stop)
	if info.IsDir() {
		err = a.uploadTree(uploading, client, what, options, shown)
	} else {
		err = a.uploadFile(uploading, client, what, options, shown)
	}
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		shown.say(shown.words())
	}
	return interrupted(ctx, err)
}

func (a *app) uploadFile(ctx context.Context, client *gather.Client, file string, options gather.FileOptions, shown *uploading) error {
	one, err := client.Upload(ctx, file, options)
	if err == nil {
		a.uploaded(shown, one)
	}
	return err
}

// uploadTree uploads the files of a directory.
func (a *app) uploadTree(ctx context.Context, client *gather.Client, dir string, options gather.FileOptions, shown *uploading) error {
	var done uploadedTree
	begun := time.Now()
	err := client.UploadTree(ctx, dir, options, func(one gather.Uploaded) {
		done.add(one)
		a.uploaded(shown, one)
	})
	switch {
	case done.files > 0:
		shown.say(done.line(time.Since(begun)))
	case err == nil:
		shown.say("no files to upload in " + dir)
	}
	if err != nil && ctx.Err() == nil && done.files > 0 {
		return partlyUploaded{err}
	}
	return err
}

// uploadedTree counts the files of a directory that are at the gatherer.
type uploadedTree struct {
	files, before int // all, and those of them that were there before
	bytes         uint64
}

func (u *uploadedTree) add(one gather.Uploaded) {
	u.files++
	u.bytes += one.Bytes
	if one.There {
		u.before++
	}
}

func (u *uploadedTree) line(took time.Duration) string {
	return fmt.Sprintf("%s, %s, %d of them there before, in %s", plural(u.files, "file"), bytesize.Short(u.bytes), u.before, seconds(took))
}

// partlyUploaded says that some files were uploaded, and why others were not.
type partlyUploaded struct{ error }

func (e partlyUploaded) Is(target error) bool { return target == errPartial }
func (e partlyUploaded) Unwrap() error        { return e.error }

// uploadFollowed uploads what is added to a file.
func (a *app) uploadFollowed(ctx context.Context, client *gather.Client, u *upload, shown *uploading, what string) error {
	name, err := filepath.Abs(what)
	if err != nil {
		return err
	}
	u.path = cmp.Or(u.path, filepath.Base(name))
	say := func(line string) { shown.say("groupcast: " + line) }
	as, err := client.Name()
	if err != nil {
		return err
	}
	book, err := u.openBook(as, name, say)
	if err != nil {
		return err
	}
	shown.stored = book.stored.Store
	return a.uploadStream(ctx, client, u, shown, func(offset uint64) (io.Reader, error) {
		if u.state != "" { // the name of any other has in it where the gatherer is
			if err := book.is(client.Gatherer()); err != nil {
				return nil, err
			}
		}
		return follow(ctx, name, offset, book, say)
	})
}

// uploadStream uploads a stream. If it is interrupted, the stream ends: what was read is uploaded first, as
// long as it gets through.
func (a *app) uploadStream(ctx context.Context, client *gather.Client, u *upload, shown *uploading, open func(uint64) (io.Reader, error)) error {
	uploading, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	shown.endsBy(stop)
	leaving := &parting{interrupted: ctx, stop: stop}
	one, err := client.UploadStream(uploading, func(offset uint64) (io.Reader, error) {
		shown.before = offset
		from, err := open(offset)
		return &until{ctx, from}, err
	}, gather.StreamOptions{Path: u.path, Progress: func(p gather.Progress) {
		shown.show(p)
		leaving.heard(p)
	}})
	if one.Path != "" { // even if its source has failed: what was read before is there
		a.uploaded(shown, one)
	}
	if errors.Is(err, errInterrupted) {
		shown.say(leaving.words(u.follow))
	}
	return err
}

// until is a reader that ends when ctx is done. Nothing that it has read is lost.
type until struct {
	ctx  context.Context
	from io.Reader
}

func (u *until) Read(p []byte) (int, error) {
	type result struct {
		n   int
		err error
	}
	if u.ctx.Err() != nil {
		return 0, io.EOF
	}
	done, buffer := make(chan result, 1), make([]byte, len(p))
	go func() { // a Read that blocks is not waited for
		n, err := u.from.Read(buffer)
		done <- result{n, err}
	}()
	select {
	case one := <-done:
		return copy(p, buffer[:one.n]), one.err
	case <-u.ctx.Done():
	}
	select { // the source may have given something in that moment
	case one := <-done:
		return copy(p, buffer[:one.n]), one.err
	case <-time.After(lastRead):
		return 0, io.EOF
	}
}

// lastRead is how long an interrupted Read may take to say what it has.
const lastRead = 100 * time.Millisecond

// interrupted tells an interruption from a failure.
func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

// uploaded tells of a finished upload.
func (a *app) uploaded(shown *uploading, one gather.Uploaded) {
	shown.end()
	how := ""
	switch {
	case one.There:
		how = ", was there already"
	case shown.before > 0:
		how = fmt.Sprintf(", %s in all", bytesize.Short(shown.before+one.Bytes))
	}
	err := a.event(one, fmt.Sprintf("%s  %s%s", printable.Text(one.Path), bytesize.Short(one.Bytes), how))
	shown.unwritten = cmp.Or(shown.unwritten, err) // the rest is uploaded all the same
}

// uploading shows how an upload goes on.
type uploading struct {
	*screen
	guess   *guess            // nil if the gatherer was named
	stored  func(upTo uint64) // called with how much of a stream is on the gatherer's disk; may be nil
	drawing sync.Mutex
	before  uint64 // how much of a stream was there from earlier
	last    time.Time
	begun   time.Time // when what was sent was last measured; zero while nothing may be sent
	sent    uint64    // how much that was
	rate    float64
	isKnown bool   // whether rate is
	reason  string // why nothing is sent, as was told last
	heard   gather.Progress
	line    string // that was told last

	unwritten error // why a finished upload could not be told
}

// newUploading begins as if connecting was already told: an upload always begins with that.
func newUploading(a *app) *uploading {
	return &uploading{screen: newScreen(a.stderr), last: time.Now(), reason: connecting}
}

// endsBy says how to end an upload to a gatherer that is only guessed.
func (u *uploading) endsBy(stop context.CancelCauseFunc) {
	if u.guess != nil {
		u.guess.stop = stop
	}
}

// samePause is how often to repeat a line that says nothing new.
const samePause = time.Minute

// connecting is what an upload does before it has heard anything.
const connecting = "connecting"

func (u *uploading) show(p gather.Progress) {
	u.hear(p)
	if p.Ended {
		return // the caller tells what became of it
	}
	u.guess.heard(p)
	if u.stored != nil {
		u.stored(p.Stored)
	}
	u.drawing.Lock()
	defer u.drawing.Unlock()
	now := time.Now()
	done, how := fmt.Sprintf("%s  %s of %s", printable.Text(p.Path), bytesize.Short(p.Sent), bytesize.Short(p.Length)), hindrance(p)
	if p.Files > 0 {
		done += fmt.Sprintf(", %d of %d files", p.FilesDone, p.Files)
	}
	reason := how
	u.measure(now, p.Sent, reason == "")
	if how == "" {
		how = "over " + plural(p.Connections, "connection")
	}
	if u.isKnown {
		how = bytesize.Short(uint64(u.rate)) + "/s " + how
	}
	switch {
	case u.terminal != nil && reason != "": // beside the rest, there is not enough room for it
		u.drawLines([]string{done, reason})
	case u.terminal != nil:
		u.drawLines([]string{done + "  " + how})
	case reason != u.reason || u.isDue(now, done+"  "+how):
		u.last, u.reason, u.line = now, reason, done+"  "+how
		u.say(u.line)
	}
}

// measure finds out how fast bytes are sent, from how many were. While nothing moves, the rate is not known.
func (u *uploading) measure(now time.Time, sent uint64, moves bool) {
	switch passed := now.Sub(u.begun); {
	case !moves:
		u.isKnown, u.begun = false, time.Time{}
		return
	case u.begun.IsZero():
	case passed < rateSpan:
		return
	default:
		u.rate, u.isKnown = float64(sent-min(u.sent, sent))/passed.Seconds(), true
	}
	u.sent, u.begun = sent, now
}

// goesOn says that there is some of a stream already: the user may have meant another one.
func (u *uploading) goesOn(path string, offset uint64) {
	if offset > 0 {
		u.say(fmt.Sprintf("groupcast: goes on with %s, of which %s are there", printable.Text(path), bytesize.Short(offset)))
	}
}

// isDue reports whether it is time for a line.
func (u *uploading) isDue(now time.Time, line string) bool {
	passed := now.Sub(u.last)
	return passed >= samePause || passed >= linePause && line != u.line
}

// hindrance says why nothing is sent now, if something is known to be in the way.
func hindrance(p gather.Progress) string {
	switch {
	case p.Detached != "":
		return "not connected: " + p.Detached + "; trying again"
	case p.Paused != "" && p.PausedBy != "":
		return "paused by the gatherer: " + printable.Text(p.PausedBy)
	case p.Paused != "":
		return "paused by the gatherer: " + strings.ReplaceAll(p.Paused, "_", " ")
	case !p.Attached:
		return connecting
	case p.Stuck != "":
		return "nothing gets through: " + printable.Text(p.Stuck) + "; trying again"
	}
	return ""
}
