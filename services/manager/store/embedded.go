package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/groupcast/groupcast/internal/filelock"
)

const (
	// walSegment is how much of the log etcd allocates ahead.
	walSegment = 16 << 20
	// history is how long watchers can resume from a revision, and deleted state is kept.
	history = "10m"
	// startTimeout is how long etcd may take to read its data directory.
	startTimeout = time.Minute
	// largest is how many bytes a transaction can have. The tree of a delivery to 10,000 members has more than etcd's default of 1.5 MiB.
	largest = 4 << 20
	// snapshotEvery is after how many transactions etcd notes how far its database is. What its log has since then is read into memory at
	// the next start, and what it has before is deleted. etcd's default of 10,000 suits small transactions: of
	// largest bytes each, they would have 40 GiB.
	snapshotEvery = 500
	// keptAlone is how many transactions etcd keeps in memory for members that are behind, and up to a hundred more. If it is alone it has no
	// such members.
	keptAlone = 1
	// readyTimeout is how long an etcd that is alone and open may take until it serves.
	readyTimeout = 10 * time.Second
)

// quota is how large etcd's database can be while it is written to. Tests have smaller ones.
var quota int64 = 2 << 30

// ErrInUse says that another process has the data directory.
var ErrInUse = errors.New("in use by another process")

// OpenEmbedded opens the store in a directory of this machine, which no other
// process may use meanwhile. It listens on no port.
func OpenEmbedded(dir string, log *slog.Logger) (*Store, error) {
	return openEmbedded(context.Background(), dir, log, func(*embed.Config) {}, readyTimeout)
}

// openEmbedded opens the store with an etcd that configure configures further. The etcd has to serve within a time, and before ctx is done.
func openEmbedded(ctx context.Context, dir string, log *slog.Logger, configure func(*embed.Config), serves time.Duration) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	unlock, err := lockDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	if err := checkFiles(dir); err != nil {
		unlock()
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	engine := &engine{log: log, failed: make(chan error, 1)}
	config := engine.config(dir)
	configure(config)
	server, err := engine.start(ctx, config, serves)
	if err != nil {
		unlock()
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	guard := newDiskGuard(dir, filepath.Join(dir, "member", "snap", "db"))
	client := v3client.New(server.Server)
	keeper := newQuotaKeeper(server.Server, client, quota, log)
	return &Store{
		commits: make(chan struct{}, maxCommits),
		client:  client,
		room: func(want want) error {
			return cmp.Or(guard.room(want), keeper.room(want))
		},
		most:   largest,
		keeper: keeper,
		failed: engine.failed,
		close: sync.OnceFunc(func() {
			keeper.stop()
			client.Close()
			guard.stop()
			server.Close()
			unlock()
		}),
	}, nil
}

// lockDir keeps other processes out of the directory until unlock is called, or this process ends.
func lockDir(dir string) (unlock func(), err error) {
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := filelock.Take(file); err != nil {
		file.Close()
		if errors.Is(err, filelock.ErrHeld) {
			return nil, ErrInUse
		}
		return nil, err
	}
	return func() { _ = filelock.Release(file) }, nil
}

// engine is the embedded etcd, with its ways of dying turned into errors.
type engine struct {
	log    *slog.Logger
	failed chan error
}

// start runs etcd. What etcd logs as fatal, such as a corrupt file, ends only
// the goroutine that found it, and becomes the error.
func (e *engine) start(ctx context.Context, config *embed.Config, serves time.Duration) (*embed.Etcd, error) {
	var server *embed.Etcd
	started := make(chan error, 1)
	go func() {
		defer func() {
			if cause := recover(); cause != nil {
				started <- fmt.Errorf("damaged, or not a store: %v", cause)
			}
		}()
		var err error
		server, err = embed.StartEtcd(config)
		started <- err
	}()
	select {
	case err := <-started:
		if err != nil {
			return nil, err
		}
	case err := <-e.failed: // the start itself hangs then, waiting for the process to end
		return nil, err
	case <-time.After(startTimeout):
		return nil, fmt.Errorf("not open within %v", startTimeout)
	}
	select {
	case <-server.Server.ReadyNotify():
		return server, nil
	case err := <-e.failed:
		return nil, err
	case <-ctx.Done():
		abandon(server)
		return nil, ctx.Err()
	case <-time.After(serves):
		abandon(server)
		return nil, fmt.Errorf("not ready within %v: its log may have lost its end, or too few of several managers are there", serves)
	}
}

// abandon closes an etcd that has not come to serve. Those that wait to serve end with its core, and Close waits for them.
func abandon(server *embed.Etcd) {
	server.Server.Stop()
	server.Close()
}

// etcd has this for the whole process: it is set before any store is open.
func init() { wal.SegmentSizeBytes = walSegment }

func (e *engine) config(dir string) *embed.Config {
	config := embed.NewConfig()
	config.Name = "groupcast"
	config.Dir = dir
	config.ListenPeerUrls, config.ListenClientUrls = nil, nil // nobody but this process
	config.AdvertiseClientUrls = []url.URL{}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.AutoCompactionMode, config.AutoCompactionRetention = "periodic", history
	config.QuotaBackendBytes = quota / 100 * alarmPercent
	config.MaxTxnOps, config.MaxRequestBytes = MaxOps+1, largest
	config.SnapshotCount, config.SnapshotCatchUpEntries = snapshotEvery, keptAlone
	config.InitialElectionTickAdvance = true
	config.TickMs, config.ElectionMs = 10, 100 // alone, it need not wait to become its own leader
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.New(quietCore{e.log.With("component", "etcd")}, zap.WithFatalHook(e), zap.WithPanicHook(e)))
	return config
}

// OnWrite is called when etcd has logged something fatal and expects the process to end.
func (e *engine) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	err := fmt.Errorf("%s: %s", entry.Message, describe(fields))
	select {
	case e.failed <- err:
	default: // the first reason is the cause
	}
	runtime.Goexit()
}

func describe(fields []zapcore.Field) string {
	encoder := zapcore.NewMapObjectEncoder()
	for _, field := range fields {
		field.AddTo(encoder)
	}
	if cause, ok := encoder.Fields["error"]; ok {
		return fmt.Sprint(cause)
	}
	return fmt.Sprint(encoder.Fields)
}

// quietCore passes etcd's log on.
type quietCore struct{ log *slog.Logger }

func (c quietCore) Enabled(level zapcore.Level) bool {
	return c.log.Enabled(context.Background(), slogLevel(level))
}

func (c quietCore) With(fields []zapcore.Field) zapcore.Core {
	return quietCore{c.log.With(attributes(fields)...)}
}

func (c quietCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) {
		return checked.AddCore(entry, c)
	}
	return checked
}

func (c quietCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	c.log.Log(context.Background(), slogLevel(entry.Level), "etcd", append(attributes(fields), "message", entry.Message)...)
	return nil
}

func (c quietCore) Sync() error { return nil }

// slogLevel keeps what ends etcd, and is quiet about the rest: what etcd calls an
// error, as on every first start and every stop, is nothing that an operator of
// Groupcast could act on. Its metrics are served for those who look closer.
func slogLevel(level zapcore.Level) slog.Level {
	if level >= zapcore.DPanicLevel {
		return slog.LevelError
	}
	return slog.LevelDebug
}

func attributes(fields []zapcore.Field) []any {
	encoder := zapcore.NewMapObjectEncoder()
	attributes := make([]any, 0, 2*len(fields))
	for _, field := range fields {
		field.AddTo(encoder)
	}
	for key, value := range encoder.Fields {
		attributes = append(attributes, key, value)
	}
	return attributes
}
