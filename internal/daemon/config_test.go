package daemon_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/daemon"
)

// settings is the configuration of a service that exists only in this test.
type settings struct {
	daemon.CommonConfig

	Name    string        `json:"name" usage:"name of the service"`
	Workers int           `json:"workers" usage:"how many work at once"`
	Store   storeSettings `json:"store"`
}

type storeSettings struct {
	DataDir string          `json:"dataDir" usage:"directory of the data"`
	Peers   []string        `json:"peers" usage:"others to ask"`
	Keep    daemon.Duration `json:"keep" usage:"how long to keep"`
	Sync    bool            `json:"sync" usage:"whether to sync"`
}

func (s *settings) Validate() error {
	var problems []error
	if s.Name == "" {
		problems = append(problems, errors.New("name is empty"))
	}
	if s.Workers < 1 {
		problems = append(problems, fmt.Errorf("workers is %d: want at least 1", s.Workers))
	}
	return errors.Join(problems...)
}

func defaults() *settings {
	return &settings{
		CommonConfig: daemon.CommonDefaults("127.0.0.1:0"), Name: "default", Workers: 1,
		Store: storeSettings{DataDir: "data", Keep: daemon.Duration(time.Hour)},
	}
}

// Flags win over the environment, which wins over the file, which wins over the defaults.
func TestPrecedence(t *testing.T) {
	const env, flag = "GROUPCAST_NAME=env", "--name=flag"
	file := "--config=" + configFile(t, "name: file\n")
	for _, tt := range []struct {
		args, environ []string
		want          string
	}{
		{nil, nil, "default"},
		{[]string{file}, nil, "file"},
		{nil, []string{env}, "env"},
		{[]string{flag}, nil, "flag"},
		{[]string{file}, []string{env}, "env"},
		{[]string{file, flag}, nil, "flag"},
		{[]string{flag, file}, []string{env}, "flag"},
		{nil, []string{"GROUPCAST_TEST_CONFIG=" + strings.TrimPrefix(file, "--config=")}, "file"},
		{[]string{file}, []string{"GROUPCAST_TEST_CONFIG=nowhere.yaml"}, "file"},
		{nil, []string{"GROUPCAST_CONFIG=nowhere.yaml"}, "default"}, // that one is for the groupcast command
	} {
		config := defaults()
		if _, err := daemon.Load("test", config, tt.args, tt.environ); err != nil {
			t.Errorf("%v %v: %v", tt.args, tt.environ, err)
		}
		if config.Name != tt.want {
			t.Errorf("%v %v: name is %q, want %q", tt.args, tt.environ, config.Name, tt.want)
		}
	}
}

func TestEveryKindFromEverySource(t *testing.T) {
	want := defaults()
	want.Admin.Pprof, want.Log.Level, want.Log.Format = true, slog.LevelWarn, "json"
	want.StopWait, want.Workers = daemon.Duration(3*time.Second), 7
	want.Store = storeSettings{DataDir: "/srv/data", Peers: []string{"a:1", "b:2"}, Keep: daemon.Duration(90 * time.Minute), Sync: true}
	for name, source := range map[string]struct{ args, environ []string }{
		"file": {args: []string{"--config", configFile(t, `
admin: {pprof: true}
log: {level: warn, format: json}
stopWait: 3s
workers: 7
store: {dataDir: /srv/data, peers: ["a:1", "b:2"], keep: 1h30m, sync: true}
`)}},
		"environment": {environ: []string{
			"GROUPCAST_ADMIN_PPROF=true", "GROUPCAST_LOG_LEVEL=warn", "GROUPCAST_LOG_FORMAT=json", "GROUPCAST_STOP_WAIT=3s", "GROUPCAST_WORKERS=7",
			"GROUPCAST_STORE_DATA_DIR=/srv/data", "GROUPCAST_STORE_PEERS=a:1, b:2", "GROUPCAST_STORE_KEEP=90m", "GROUPCAST_STORE_SYNC=1",
		}},
		"flags": {args: []string{
			"--admin-pprof", "--log-level", "WARN", "--log-format=json", "--stop-wait=3s", "--workers=7",
			"--store-data-dir=/srv/data", "--store-peers=a:1,b:2", "--store-keep=5400s", "--store-sync",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got := defaults()
			if _, err := daemon.Load("test", got, source.args, source.environ); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("read\n%s\nwant\n%s", daemon.Print(got), daemon.Print(want))
			}
		})
	}
}

func TestMistakesSayWhatWasMeant(t *testing.T) {
	for _, tt := range []struct {
		name, file    string
		args, environ []string
		want          []string
	}{
		{name: "unknown key", file: "naem: x", want: []string{"unknown key naem: did you mean name?"}},
		{name: "unknown section", file: "stroe: {dataDir: x}", want: []string{"unknown key stroe: did you mean store?"}},
		{name: "unknown key below", file: "store: {datadir: x}", want: []string{"unknown key store.datadir: did you mean store.dataDir?"}},
		{name: "key one level too high", file: "dataDir: x", want: []string{"unknown key dataDir: did you mean store.dataDir?"}},
		{name: "many unknown keys", file: "naem: x\nstore: {pears: []}\nlog: {levl: info}", want: []string{"did you mean name?", "did you mean store.peers?", "did you mean log.level?"}},
		{name: "a value for a section", file: "store: here", want: []string{"store"}},
		{name: "a section for a value", file: "name: {first: x}", want: []string{"name"}},
		{name: "a key twice", file: "name: a\nname: b", want: []string{"name"}},
		{name: "no YAML", file: "{", want: []string{"read config", "config.yaml"}},
		{name: "no file", args: []string{"--config=nowhere.yaml"}, want: []string{"read config", "nowhere.yaml"}},
		{name: "duration in the file", file: "stopWait: soon", want: []string{"config.yaml", `"soon"`}},
		{name: "unknown flag", args: []string{"--store-datadir=x"}, want: []string{"unknown flag --store-datadir: did you mean --store-data-dir?"}},
		{name: "argument", args: []string{"serve"}, want: []string{`unexpected argument "serve"`}},
		{name: "number in a flag", args: []string{"--workers=many"}, want: []string{"--workers", "want a whole number"}},
		{name: "bool in a flag", args: []string{"--store-sync=maybe"}, want: []string{"--store-sync", "want true or false"}},
		{name: "every mistake in the environment", environ: []string{"GROUPCAST_WORKERS=many", "GROUPCAST_STORE_KEEP=soon"}, want: []string{`GROUPCAST_WORKERS="many": want a whole number`, `GROUPCAST_STORE_KEEP="soon"`}},
		{name: "every wrong value", args: []string{"--name=", "--workers=0", "--log-format=xml"}, want: []string{"name is empty", "workers is 0", `log.format is "xml"`}},
		{name: "level in a flag", args: []string{"--log-level=loud"}, want: []string{"--log-level", "want debug, info, warn or error"}},
		{name: "time that cannot be", args: []string{"--stop-wait=-1s"}, want: []string{"stopWait is -1s: want 0 or more"}},
		{name: "time in a flag", args: []string{"--stop-wait=soon"}, want: []string{"--stop-wait", `"soon" is no time: want one as 10s`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.file != "" {
				tt.args = append(tt.args, "--config="+configFile(t, tt.file))
			}
			_, err := daemon.Load("test", defaults(), tt.args, tt.environ)
			if err == nil {
				t.Fatalf("no error, want %q", tt.want)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
}

func TestPrintedConfigIsReadAgain(t *testing.T) {
	first := defaults()
	print, err := daemon.Load("test", first, []string{
		"--print-config", "--name=printed", "--store-peers=a:1,b:2", "--stop-wait=1m30s", "--log-level=debug", "--admin-listen=",
	}, nil)
	if err != nil || !print {
		t.Fatalf("print %v, %v", print, err)
	}
	second := defaults()
	if _, err := daemon.Load("test", second, []string{"--config=" + configFile(t, daemon.Print(first))}, nil); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(first, second) {
		t.Errorf("printed\n%s\nread\n%s", daemon.Print(first), daemon.Print(second))
	}
}

func TestHelpListsEverySetting(t *testing.T) {
	help := daemon.Usage("test", defaults())
	for _, want := range []string{
		"--config", "--print-config", "--print-schema", "--version",
		"--admin-listen string", "--admin-pprof  ", "--log-level level", "--log-format string", "--stop-wait duration",
		"--name string", "--workers number", "--store-data-dir string", "--store-peers list", "--store-keep duration", "--store-sync  ",
		"directory of the data", `(default "data")`, "(default 1h0m0s)",
		"GROUPCAST_ADMIN_LISTEN", "GROUPCAST_TEST_CONFIG",
	} {
		if !strings.Contains(help, want) {
			t.Errorf("help does not say %q:\n%s", want, help)
		}
	}
}

func configFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
