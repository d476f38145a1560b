package main

import (
	"fmt"
	"strings"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// workload is what runs pods.
type workload struct {
	name     string
	selector *meta.LabelSelector
	template core.PodTemplateSpec
	claims   []core.PersistentVolumeClaim
}

// together looks at what one object says of another.
func together(all []runtime.Object) (failed []error) {
	var pods []workload
	for _, object := range all {
		switch o := object.(type) {
		case *apps.Deployment:
			pods = append(pods, workload{"deployment " + o.Name, o.Spec.Selector, o.Spec.Template, nil})
		case *apps.StatefulSet:
			pods = append(pods, workload{"statefulset " + o.Name, o.Spec.Selector, o.Spec.Template, o.Spec.VolumeClaimTemplates})
		}
	}
	for _, w := range pods {
		failed = append(failed, w.selects()...)
		failed = append(failed, w.mounts(all)...)
		failed = append(failed, w.redisUser(all)...)
		failed = append(failed, w.restricted()...)
		failed = append(failed, w.probes()...)
	}
	for _, object := range all {
		switch o := object.(type) {
		case *core.Service:
			failed = append(failed, reaches("service "+o.Name, labels.SelectorFromSet(o.Spec.Selector),
				pods, servicePorts(o))...)
		case *policy.PodDisruptionBudget:
			failed = append(failed, reaches("poddisruptionbudget "+o.Name, selectorOf(o.Spec.Selector), pods, nil)...)
		case *PodMonitor:
			failed = append(failed, reaches("podmonitor "+o.Name, selectorOf(&o.Spec.Selector), pods, metricsPorts(o))...)
		case *networking.NetworkPolicy:
			failed = append(failed, reaches("networkpolicy "+o.Name, selectorOf(&o.Spec.PodSelector), pods, policyPorts(o))...)
		}
	}
	return failed
}

func selectorOf(s *meta.LabelSelector) labels.Selector {
	selector, err := meta.LabelSelectorAsSelector(s)
	if err != nil {
		return labels.Nothing()
	}
	return selector
}

// selects: a workload has to find its own pods.
func (w workload) selects() []error {
	if selectorOf(w.selector).Matches(labels.Set(w.template.Labels)) {
		return nil
	}
	return []error{fmt.Errorf("%s does not select the pods that it makes", w.name)}
}

// mounts: volumes that are mounted are there, and so are the ConfigMaps of these
// manifests. Secrets are the cluster's.
func (w workload) mounts(all []runtime.Object) (failed []error) {
	maps, volumes := map[string]bool{}, map[string]bool{}
	for _, object := range all {
		if o, ok := object.(*core.ConfigMap); ok {
			maps[o.Name] = true
		}
	}
	for _, claim := range w.claims {
		volumes[claim.Name] = true
	}
	for _, v := range w.template.Spec.Volumes {
		volumes[v.Name] = true
		if v.ConfigMap != nil && !maps[v.ConfigMap.Name] {
			failed = append(failed, fmt.Errorf("%s: there is no configmap %s", w.name, v.ConfigMap.Name))
		}
	}
	for _, c := range w.template.Spec.Containers {
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] {
				failed = append(failed, fmt.Errorf("%s: there is no volume %s", w.name, m.Name))
			}
		}
		for _, from := range c.EnvFrom {
			if from.ConfigMapRef != nil && !maps[from.ConfigMapRef.Name] {
				failed = append(failed, fmt.Errorf("%s: there is no configmap %s", w.name, from.ConfigMapRef.Name))
			}
		}
		for _, env := range c.Env {
			if from := env.ValueFrom; from != nil && from.ConfigMapKeyRef != nil && !maps[from.ConfigMapKeyRef.Name] {
				failed = append(failed, fmt.Errorf("%s: there is no configmap %s", w.name, from.ConfigMapKeyRef.Name))
			}
		}
	}
	return failed
}

// restricted holds a pod to the profile of that name (Pod Security Standards), and
// to what goes beyond it here: a root that cannot be written to, no token of the
// cluster's API, a bound of memory, an image of one version.
func (w workload) restricted() (failed []error) {
	no := func(what string) { failed = append(failed, fmt.Errorf("%s: %s", w.name, what)) }
	spec := w.template.Spec
	if spec.HostNetwork || spec.HostPID || spec.HostIPC {
		no("uses a namespace of the host")
	}
	if spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken {
		no("has a token of the cluster's API")
	}
	if s := spec.SecurityContext; s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot {
		no("may run as root")
	} else if s.SeccompProfile == nil || s.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
		no("has no seccomp profile")
	}
	for _, v := range spec.Volumes {
		if v.HostPath != nil {
			no("mounts a path of the host")
		}
	}
	for _, c := range spec.Containers {
		s := c.SecurityContext
		switch {
		case s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation:
			no("may gain privileges")
		case s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem:
			no("can write to its root")
		case s.Capabilities == nil || len(s.Capabilities.Drop) != 1 || s.Capabilities.Drop[0] != "ALL" ||
			len(s.Capabilities.Add) > 0:
			no("keeps capabilities")
		}
		if _, tag, _ := strings.Cut(c.Image[strings.LastIndex(c.Image, "/")+1:], ":"); tag == "" || tag == "latest" {
			no("runs any version: the image " + c.Image + " has no tag")
		}
		if c.Resources.Limits.Memory().IsZero() {
			no("has no bound of memory")
		}
		if c.LivenessProbe == nil || c.ReadinessProbe == nil {
			no("has no probes")
		} else if c.LivenessProbe.HTTPGet.Path == "/readyz" {
			no("is restarted when something else is away")
		}
	}
	return failed
}

// probes: the port of that name is the one at which the command serves /metrics.
func (w workload) probes() (failed []error) {
	for _, c := range w.template.Spec.Containers {
		var at string
		for _, env := range c.Env {
			if env.Name == "ORGOPS_PROBE_ADDR" {
				at = env.Value
			}
		}
		for _, p := range c.Ports {
			if p.Name == "probes" && at != fmt.Sprintf("0.0.0.0:%d", p.ContainerPort) {
				failed = append(failed, fmt.Errorf("%s: the port probes is %d, and probes are at %q", w.name, p.ContainerPort, at))
			}
		}
	}
	return failed
}

// metricsPorts are the ports of a monitor. The commands have metrics at one path.
func metricsPorts(m *PodMonitor) (names []string) {
	for _, e := range m.Spec.PodMetricsEndpoints {
		if e.Port == nil || e.Path != "/metrics" {
			names = append(names, "with "+e.Path)
			continue
		}
		names = append(names, *e.Port)
	}
	return names
}

func servicePorts(o *core.Service) (names []string) {
	for _, p := range o.Spec.Ports {
		names = append(names, p.TargetPort.StrVal)
	}
	return names
}

func policyPorts(o *networking.NetworkPolicy) (names []string) {
	for _, rule := range o.Spec.Ingress {
		for _, p := range rule.Ports {
			if p.Port != nil && p.Port.StrVal != "" {
				names = append(names, p.Port.StrVal)
			}
		}
	}
	return names
}

// reaches: a selector finds pods, and these have the ports.
func reaches(who string, selector labels.Selector, pods []workload, ports []string) (failed []error) {
	found := false
	for _, w := range pods {
		if !selector.Matches(labels.Set(w.template.Labels)) {
			continue
		}
		found = true
		has := map[string]bool{}
		for _, c := range w.template.Spec.Containers {
			for _, p := range c.Ports {
				has[p.Name] = true
			}
		}
		for _, port := range ports {
			if !has[port] {
				failed = append(failed, fmt.Errorf("%s: %s has no port %s", who, w.name, port))
			}
		}
	}
	if !found {
		failed = append(failed, fmt.Errorf("%s selects no pods", who))
	}
	return failed
}
