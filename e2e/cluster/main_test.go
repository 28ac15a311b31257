//go:build cluster

package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/testprocess"
)

const (
	defaultName = "groupcast-e2e"
	nodeImage   = "kindest/node:v1.34.3"
	chart       = "../../charts/groupcast"
	artifacts   = "artifacts"

	policyEngine = "groupcast-e2e/kube-router:v2.1.0"
)

var (
	clusterName = defaultName
	kubeconfig  string
	images      = []string{own("manager"), own("agent"), own("gatherer"), own("replicator"), own("cli"), "envoyproxy/envoy:v1.40.0", "prom/prometheus:v3"}
)

// dev is the tag of the images under test, which no chart uses by itself: they are built from this checkout.
const dev = "dev"

func own(service string) string { return "ghcr.io/groupcast/groupcast-" + service + ":" + dev }

func TestMain(m *testing.M) {
	status, err := withCluster(m.Run)
	testprocess.Remove()
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e/cluster:", err)
		status = 1
	}
	os.Exit(status)
}

// withCluster runs tests in a cluster of their own, and removes it.
func withCluster(run func() int) (status int, err error) {
	if err := preflight(); err != nil {
		return 1, err
	}
	if name := os.Getenv("GROUPCAST_E2E_CLUSTER"); name != "" {
		clusterName = name
	}
	dir, err := os.MkdirTemp("", "groupcast-e2e-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	kubeconfig = filepath.Join(dir, "kubeconfig")
	keep := os.Getenv("GROUPCAST_E2E_KEEP") != ""
	if keep && exec.Command("kind", "export", "kubeconfig", "--name", clusterName, "--kubeconfig", kubeconfig).Run() == nil {
		return run(), nil
	}
	started := time.Now()
	if !keep {
		defer func() { _, _ = command(2*time.Minute, "kind", "delete", "cluster", "--name", clusterName) }()
	}
	_, _ = command(2*time.Minute, "kind", "delete", "cluster", "--name", clusterName) // left over from an earlier run
	if _, err := command(6*time.Minute, "kind", "create", "cluster", "--name", clusterName, "--image", nodeImage,
		"--config", "kind.yaml", "--kubeconfig", kubeconfig, "--wait", "300s"); err != nil {
		return 1, err
	}
	if _, err := command(8*time.Minute, "kind", append([]string{"load", "docker-image", "--name", clusterName}, images...)...); err != nil {
		return 1, err
	}
	// Some node images use another name for the account of their storage's helper pods than the provisioner does.
	_, _ = command(time.Minute, "kubectl", "--kubeconfig", kubeconfig, "-n", "local-path-storage", "create", "serviceaccount", "local-path-provisioner-service-account")
	// Three managers are on three nodes only if one of them may be on the control plane's node.
	const controlPlane = "node-role.kubernetes.io/control-plane"
	if _, err := command(time.Minute, "kubectl", "--kubeconfig", kubeconfig, "taint", "nodes", "-l", controlPlane, controlPlane+":NoSchedule-"); err != nil {
		return 1, err
	}
	if err := enforcePolicies(); err != nil {
		return 1, err
	}
	fmt.Printf("the cluster is there after %v\n", time.Since(started).Round(time.Second))
	return run(), nil
}

// enforcePolicies makes network policies take effect even if the cluster's own network does not support them, as kind's does.
func enforcePolicies() error {
	if network, err := kubectl("-n", "kube-system", "get", "daemonsets", "-o", "name"); err != nil || strings.Contains(network, "/kindnet") {
		return err
	}
	if _, err := command(15*time.Minute, "make", "-C", "../..", "policy-engine"); err != nil {
		return err
	}
	if _, err := command(3*time.Minute, "kind", "load", "docker-image", "--name", clusterName, policyEngine); err != nil {
		return err
	}
	if _, err := kubectl("apply", "-f", "policies/kube-router.yaml"); err != nil {
		return err
	}
	_, err := kubectl("-n", "kube-system", "rollout", "status", "daemonset/kube-router", "--timeout=1m")
	return err
}

// preflight returns what is missing, and what to do about it.
func preflight() error {
	for _, tool := range []string{"docker", "kind", "helm", "kubectl"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%s is not on the PATH: install it (docs/kubernetes.md, \"The tests\")", tool)
		}
	}
	if _, err := command(20*time.Second, "docker", "info"); err != nil {
		return fmt.Errorf("no Docker engine answers: start one: %w", err)
	}
	for _, image := range append([]string{nodeImage}, images...) {
		if _, err := command(20*time.Second, "docker", "image", "inspect", image); err == nil {
			continue
		}
		if strings.Contains(image, "/groupcast-") {
			return fmt.Errorf("image %s is not there: make images", image)
		}
		if _, err := command(10*time.Minute, "docker", "pull", image); err != nil {
			return err
		}
	}
	return nil
}

// command runs a program, with a time limit, and returns what it wrote.
func command(limit time.Duration, name string, args ...string) (string, error) {
	return commandWith("", limit, name, args...)
}

// commandWith is command for a program that reads something.
func commandWith(input string, limit time.Duration, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	run := exec.CommandContext(ctx, name, args...)
	run.Stdin, run.WaitDelay = strings.NewReader(input), 5*time.Second
	output, err := run.CombinedOutput()
	if err != nil {
		return string(output), fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, last(string(output), 3000))
	}
	return string(output), nil
}

func last(text string, n int) string {
	return text[max(0, len(text)-n):]
}
