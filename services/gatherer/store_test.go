package gatherer

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
)

// A store belongs to one gatherer at a time.
func TestStoreIsTakenOnce(t *testing.T) {
	dir := t.TempDir()
	config := Defaults()
	config.Store.Dir, config.Policy.File = filepath.Join(dir, "gathered"), filepath.Join(dir, "policy.yaml")
	log := slog.New(slog.DiscardHandler)
	unlock, err := takeStore(log, config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := takeStore(log, config); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("taken a second time: %v", err)
	}
	unlock()
	again, err := takeStore(log, config)
	if err != nil {
		t.Fatalf("after it was given back: %v", err)
	}
	again()
}
