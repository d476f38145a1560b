package main

import (
	autoscaling "k8s.io/api/autoscaling/v2"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The types of operators, as far as the manifests use them: what their modules
// bring along takes minutes to build. Members and their types are those of KEDA 2.17
// (apis/keda/v1alpha1/scaledobject_types.go), of Prometheus Operator 0.79
// (pkg/apis/monitoring/v1/podmonitor_types.go), and of Gateway API 1.4
// (apis/v1/httproute_types.go).

func addOperators(known *runtime.Scheme) {
	known.AddKnownTypes(schema.GroupVersion{Group: "keda.sh", Version: "v1alpha1"}, &ScaledObject{})
	known.AddKnownTypes(schema.GroupVersion{Group: "monitoring.coreos.com", Version: "v1"}, &PodMonitor{})
	known.AddKnownTypes(schema.GroupVersion{Group: "gateway.networking.k8s.io", Version: "v1"}, &HTTPRoute{})
}

// ScaledObject is KEDA's.
type ScaledObject struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty"`
	Spec            struct {
		ScaleTargetRef struct {
			Name string `json:"name"`
			Kind string `json:"kind,omitempty"`
		} `json:"scaleTargetRef"`
		PollingInterval *int32 `json:"pollingInterval,omitempty"`
		CooldownPeriod  *int32 `json:"cooldownPeriod,omitempty"`
		MinReplicaCount *int32 `json:"minReplicaCount,omitempty"`
		MaxReplicaCount *int32 `json:"maxReplicaCount,omitempty"`
		Fallback        *struct {
			FailureThreshold int32 `json:"failureThreshold"`
			Replicas         int32 `json:"replicas"`
		} `json:"fallback,omitempty"`
		Advanced *struct {
			HorizontalPodAutoscalerConfig *struct {
				Behavior *autoscaling.HorizontalPodAutoscalerBehavior `json:"behavior,omitempty"`
			} `json:"horizontalPodAutoscalerConfig,omitempty"`
		} `json:"advanced,omitempty"`
		Triggers []struct {
			Type       string                       `json:"type"`
			MetricType autoscaling.MetricTargetType `json:"metricType,omitempty"`
			Metadata   map[string]string            `json:"metadata"`
		} `json:"triggers"`
	} `json:"spec"`
}

// DeepCopyObject is never called: nothing is changed.
func (s *ScaledObject) DeepCopyObject() runtime.Object { return s }

// PodMonitor is Prometheus Operator's.
type PodMonitor struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty"`
	Spec            struct {
		Selector            meta.LabelSelector `json:"selector"`
		PodMetricsEndpoints []struct {
			Port     *string `json:"port,omitempty"`
			Path     string  `json:"path,omitempty"`
			Interval string  `json:"interval,omitempty"`
		} `json:"podMetricsEndpoints"`
	} `json:"spec"`
}

// DeepCopyObject is never called: nothing is changed.
func (m *PodMonitor) DeepCopyObject() runtime.Object { return m }

// HTTPRoute is the Gateway API's.
type HTTPRoute struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty"`
	Spec            struct {
		ParentRefs []struct {
			Name        string `json:"name"`
			Namespace   string `json:"namespace,omitempty"`
			SectionName string `json:"sectionName,omitempty"`
		} `json:"parentRefs,omitempty"`
		Hostnames []string `json:"hostnames,omitempty"`
		Rules     []struct {
			BackendRefs []struct {
				Name      string `json:"name"`
				Namespace string `json:"namespace,omitempty"`
				Port      int32  `json:"port,omitempty"`
			} `json:"backendRefs,omitempty"`
			Timeouts *struct {
				Request string `json:"request,omitempty"`
			} `json:"timeouts,omitempty"`
		} `json:"rules,omitempty"`
	} `json:"spec"`
}

// DeepCopyObject is never called: nothing is changed.
func (r *HTTPRoute) DeepCopyObject() runtime.Object { return r }
