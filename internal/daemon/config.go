package daemon

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/groupcast/groupcast/internal/spell"
)

// Duration is a time.Duration that is written "10s" in files, flags and the environment.
type Duration time.Duration

// Std returns d as the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes d as time.Duration does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what time.ParseDuration reads.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is no time: want one as 10s or 5m", text)
	}
	*d = Duration(parsed)
	return nil
}

var errVersion = errors.New("version asked for")

// Load fills config, which holds its defaults, from the YAML file named by --config or the environment, then from the
// environment, then from flags. It reports whether --print-config was given; so it does even if it fails because a
// value is wrong.
func Load(service string, config Config, args, environ []string) (printConfig bool, err error) {
	settings := fields(reflect.ValueOf(config), nil)
	env := environment(environ)
	file, err := configFile(args, env[fileVariable(service)])
	if err != nil {
		return false, err
	}
	if file != "" {
		if err := readFile(file, config, settings); err != nil {
			return false, err
		}
	}
	if err := readEnvironment(env, settings); err != nil {
		return false, err
	}
	flags := flagSet(service, settings)
	if err := flags.Parse(args); err != nil {
		return false, flagError(err, flags)
	}
	if len(flags.Args()) > 0 {
		return false, fmt.Errorf("unexpected argument %q; --help lists the flags", flags.Arg(0))
	}
	if asked, _ := flags.GetBool("version"); asked {
		return false, errVersion
	}
	if asked, _ := flags.GetBool("print-schema"); asked {
		return false, errSchema
	}
	printConfig, _ = flags.GetBool("print-config")
	return printConfig, errors.Join(config.Common().validate(), config.Validate())
}

func readEnvironment(env map[string]string, settings []field) error {
	var problems []error
	for _, setting := range settings {
		if text, set := env[setting.env()]; set {
			if err := setText(setting.value, text); err != nil {
				problems = append(problems, fmt.Errorf("%s=%q: %w", setting.env(), text, err))
			}
		}
	}
	return errors.Join(problems...)
}

func environment(environ []string) map[string]string {
	env := make(map[string]string, len(environ))
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	return env
}

// fileVariable returns the environment variable for a service's file. It is not GROUPCAST_CONFIG,
// as that is for the groupcast command, which may be used in the same shell.
func fileVariable(service string) string {
	return "GROUPCAST_" + strings.ToUpper(service) + "_CONFIG"
}

// configFile finds --config before the other flags are read, since they override what the file says.
func configFile(args []string, fallback string) (string, error) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.Usage = func() {}
	file := flags.String("config", fallback, "")
	flags.BoolP("help", "h", false, "")
	if err := flags.Parse(args); err != nil {
		return "", err
	}
	return *file, nil
}

func flagSet(service string, settings []field) *pflag.FlagSet {
	flags := pflag.NewFlagSet("groupcast-"+service, pflag.ContinueOnError)
	flags.SortFlags = false
	flags.Usage = func() {}
	flags.String("config", "", "YAML file to read the settings from (environment: "+fileVariable(service)+")")
	flags.Bool("print-config", false, "print the settings in effect as YAML, and exit")
	flags.Bool("print-schema", false, "print the JSON schema of the file, and exit")
	flags.Bool("version", false, "print the version, and exit")
	for _, setting := range settings {
		flags.Var(flagValue{setting.value}, setting.flag(), setting.usage)
		if setting.value.Kind() == reflect.Bool {
			flags.Lookup(setting.flag()).NoOptDefVal = "true"
		}
	}
	return flags
}

// flagError adds the most similar flag to a complaint about an unknown one.
func flagError(err error, flags *pflag.FlagSet) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	var names []string
	flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	given := unknown.GetSpecifiedName()
	if meant := spell.Alike(given, names); meant != "" {
		return fmt.Errorf("unknown flag --%s: did you mean --%s? --help lists them all", given, meant)
	}
	return fmt.Errorf("unknown flag --%s: --help lists them all", given)
}

// readFile reads a YAML file into config, and refuses keys that are not settings.
func readFile(name string, config Config, settings []field) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("read config: %w", err)
	}
	var tree map[string]any
	if err := yaml.Unmarshal(text, &tree); err != nil {
		return fmt.Errorf("read config %s: %w", name, spell.YAML(err))
	}
	if err := errors.Join(unknownKeys(tree, nil, settings)...); err != nil {
		return fmt.Errorf("read config %s: %w", name, err)
	}
	if err := spell.UnmarshalYAML(text, config); err != nil {
		return fmt.Errorf("read config %s: %w", name, err)
	}
	return nil
}

func unknownKeys(tree map[string]any, path []string, settings []field) []error {
	known := make(map[string]bool) // whether the key holds a setting itself
	for _, setting := range settings {
		if len(setting.path) > len(path) && strings.HasPrefix(setting.key()+".", strings.Join(append(path, ""), ".")) {
			known[setting.path[len(path)]] = len(setting.path) == len(path)+1
		}
	}
	var problems []error
	for _, key := range slices.Sorted(maps.Keys(tree)) {
		below := append(path[:len(path):len(path)], key)
		isSetting, isKnown := known[key]
		if !isKnown {
			problems = append(problems, fmt.Errorf("unknown key %s%s", strings.Join(below, "."), spell.DidYouMean(nearestKey(strings.Join(below, "."), settings))))
			continue
		}
		if subtree, isTree := tree[key].(map[string]any); isTree && !isSetting {
			problems = append(problems, unknownKeys(subtree, below, settings)...)
		}
	}
	return problems
}

// nearestKey returns the setting of the same name in another section, else the setting or section
// whose spelling is most similar; nothing if none is similar.
func nearestKey(key string, settings []field) string {
	var keys []string
	name := key[strings.LastIndexByte(key, '.')+1:]
	for _, setting := range settings {
		if strings.EqualFold(setting.path[len(setting.path)-1], name) {
			return setting.key()
		}
		for n := range setting.path {
			keys = append(keys, strings.Join(setting.path[:n+1], "."))
		}
	}
	return spell.Alike(key, keys)
}

// Print returns the settings in effect as YAML.
func Print(config Config) string {
	text, err := yaml.Marshal(config)
	if err != nil {
		panic("daemon: config cannot be written as YAML: " + err.Error())
	}
	return string(text)
}

// Usage returns the help text.
func Usage(service string, config Config) string {
	settings := fields(reflect.ValueOf(config), nil)
	return fmt.Sprintf("Usage: groupcast-%s [flags]\n\nEvery flag is also a YAML key (--admin-listen is admin.listen) and an\nenvironment variable (GROUPCAST_ADMIN_LISTEN). Flags win over the\nenvironment, which wins over the file.\n\nFlags:\n%s",
		service, flagSet(service, settings).FlagUsages())
}
