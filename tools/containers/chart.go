package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"gopkg.in/yaml.v3"
)

// object is a YAML object of a Kubernetes manifest.
type object map[string]any

// at returns the value at a path of names, or nil if there is none.
func (o object) at(names ...string) any {
	var here any = map[string]any(o)
	for _, name := range names {
		part, ok := here.(map[string]any)
		if !ok {
			return nil
		}
		here = part[name]
	}
	return here
}

func asObject(v any) object {
	o, _ := v.(map[string]any)
	return o
}

// objects returns the list of objects at a path of names.
func (o object) objects(names ...string) (list []object) {
	items, _ := o.at(names...).([]any)
	for _, item := range items {
		list = append(list, asObject(item))
	}
	return list
}

// checkChart checks the manifests that helm template prints.
func checkChart(text []byte) error {
	f := &findings{file: "chart"}
	kinds := make(map[string]object)
	for decoder := yaml.NewDecoder(strings.NewReader(string(text))); ; {
		var m map[string]any
		if err := decoder.Decode(&m); err != nil {
			if errors.Is(err, io.EOF) {
				break
			}
			return fmt.Errorf("chart: %w", err)
		}
		if len(m) == 0 {
			continue
		}
		kind := fmt.Sprint(m["kind"])
		f.want(kinds[kind] == nil, "one %s", kind)
		f.want(kind != "Secret", "no Secret made")
		kinds[kind] = m
	}
	for _, kind := range []string{
		"Deployment", "Service", "ServiceAccount", "ConfigMap", "PodDisruptionBudget",
		"NetworkPolicy", "Pod",
	} {
		f.want(kinds[kind] != nil, "a %s", kind)
	}
	deployment := kinds["Deployment"]
	checkPod(f, asObject(deployment.at("spec", "template", "spec")))
	checkPod(f, asObject(kinds["Pod"].at("spec")))
	checkService(f, asObject(deployment.at("spec", "template", "spec")))
	labels := fmt.Sprint(deployment.at("spec", "selector", "matchLabels"))
	f.want(
		labels == fmt.Sprint(kinds["PodDisruptionBudget"].at("spec", "selector", "matchLabels")),
		"a disruption budget of the pods",
	)
	f.want(
		labels == fmt.Sprint(kinds["NetworkPolicy"].at("spec", "podSelector", "matchLabels")),
		"a network policy of the pods",
	)
	f.want(labels == fmt.Sprint(kinds["Service"].at("spec", "selector")), "a service of the pods")
	if monitor := kinds["ServiceMonitor"]; monitor != nil {
		f.want(
			labels == fmt.Sprint(monitor.at("spec", "selector", "matchLabels")),
			"a monitor of the service",
		)
		for _, endpoint := range monitor.objects("spec", "endpoints") {
			f.want(
				endpoint["port"] == "http" && endpoint["path"] == "/metrics",
				"a monitor that asks for the metrics",
			)
		}
	}
	f.want(
		kinds["PodDisruptionBudget"].at("spec", "maxUnavailable") == 1, "one pod to be away at most",
	)
	f.want(
		fmt.Sprint(deployment.at("spec", "strategy", "rollingUpdate", "maxUnavailable")) == "0",
		"none away during an update",
	)
	for _, rule := range kinds["NetworkPolicy"].objects("spec", "ingress") {
		f.want(
			len(rule.objects("from")) > 0 && len(rule.objects("ports")) == 1,
			"a network policy that names who may come, and where",
		)
	}
	policy := kinds["NetworkPolicy"]
	f.want(
		fmt.Sprint(policy.at("spec", "policyTypes")) == "[Ingress Egress]",
		"a network policy in both directions",
	)
	f.want(
		len(policy.objects("spec", "egress")) > 1, "a network policy that admits DNS and the stores",
	)
	for _, rule := range policy.objects("spec", "egress") {
		f.want(
			len(rule.objects("to")) > 0 || len(rule.objects("ports")) > 0,
			"a network policy that names what pods may reach",
		)
	}
	for _, m := range kinds {
		checkMatching(f, m, deployment)
	}
	return f.err()
}

// checkMatching checks that the Deployment uses the ServiceAccount and the ConfigMap of the chart.
func checkMatching(f *findings, m, deployment object) {
	name := m.at("metadata", "name")
	pod := asObject(deployment.at("spec", "template", "spec"))
	switch m["kind"] {
	case "ServiceAccount":
		f.want(pod["serviceAccountName"] == name, "the account %v used", name)
	case "ConfigMap":
		used := false
		for _, v := range pod.objects("volumes") {
			used = used || v.at("configMap", "name") == name
		}
		f.want(used, "the settings %v used", name)
	}
}

// checkPod checks the privileges and resources of a pod.
func checkPod(f *findings, pod object) {
	f.want(pod["automountServiceAccountToken"] == false, "no token of the cluster")
	security := asObject(pod["securityContext"])
	f.want(
		security["runAsNonRoot"] == true && security["runAsUser"] == 65532 &&
			security["runAsGroup"] == 65532,
		"user 65532",
	)
	f.want(security.at("seccompProfile", "type") == "RuntimeDefault", "the runtime's seccomp profile")
	f.want(
		pod["hostNetwork"] == nil && pod["hostPID"] == nil && pod["hostIPC"] == nil,
		"nothing of the host's",
	)
	containers := pod.objects("containers")
	f.want(len(containers) == 1, "one container")
	for _, c := range containers {
		s := asObject(c["securityContext"])
		f.want(
			s["allowPrivilegeEscalation"] == false && s["readOnlyRootFilesystem"] == true &&
				s["privileged"] == nil,
			"a read-only container without privileges",
		)
		f.want(fmt.Sprint(s.at("capabilities")) == "map[drop:[ALL]]", "no capabilities")
		f.want(
			c.at("resources", "requests", "cpu") != nil &&
				c.at("resources", "requests", "memory") != nil &&
				c.at("resources", "limits", "memory") != nil,
			"requests, and a limit of memory",
		)
		f.want(!strings.HasSuffix(fmt.Sprint(c["image"]), ":latest"), "a tag of the image")
	}
}

// checkService checks the container of the Deployment.
func checkService(f *findings, pod object) {
	c := object{}
	if containers := pod.objects("containers"); len(containers) > 0 {
		c = containers[0]
	}
	f.want(c.at("readinessProbe", "httpGet", "path") == "/readyz", "readiness by /readyz")
	// The liveness probe must not fail while Redis or the ledger is down. Kubernetes would restart
	// the pods.
	f.want(
		c.at("livenessProbe", "httpGet", "path") == "/healthz" &&
			c.at("startupProbe", "httpGet", "path") == "/healthz",
		"life by /healthz",
	)
	f.want(fmt.Sprint(c["args"]) == "[serve]" && c["command"] == nil, "no arguments but serve")
	secret, limited := 0, false
	for _, e := range c.objects("env") {
		switch e["name"] {
		case "GOMEMLIMIT":
			limited = e.at("valueFrom", "resourceFieldRef", "resource") == "limits.memory"
		case "FEEDFILTER_LEDGER", "FEEDFILTER_REDIS":
			secret++
			f.want(
				e["value"] == nil && e.at("valueFrom", "secretKeyRef", "name") != nil,
				"%v from a Secret", e["name"],
			)
		}
	}
	f.want(secret == 2, "the ledger and Redis")
	f.want(limited, "GOMEMLIMIT from the limit of memory")
	shutdown, grace := 0, 0
	for _, e := range c.objects("env") {
		if e["name"] == "FEEDFILTER_SHUTDOWN_TIMEOUT" {
			_, _ = fmt.Sscanf(fmt.Sprint(e["value"]), "%ds", &shutdown)
		}
	}
	_, _ = fmt.Sscan(fmt.Sprint(pod["terminationGracePeriodSeconds"]), &grace)
	drain, _ := c.at("lifecycle", "preStop", "sleep", "seconds").(int)
	f.want(
		shutdown > 0 && grace > shutdown+drain,
		"more time to end (%d s) than requests in flight get (%d s after %d s)", grace, shutdown, drain,
	)
}
