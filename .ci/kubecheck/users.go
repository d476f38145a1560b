package main

import (
	"fmt"
	"net/url"
	"path"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// redisUser: a container logs in to Redis by the name in its URL and the password in
// a file, which have to be one user's: the file of USER is called redis-USER.
func (w workload) redisUser(all []runtime.Object) (failed []error) {
	for _, c := range w.template.Spec.Containers {
		env := environment(c, all)
		at, err := url.Parse(env["ORGOPS_REDIS_URL"])
		if err != nil || at.Host == "" {
			failed = append(failed, fmt.Errorf("%s: %s has no ORGOPS_REDIS_URL", w.name, c.Name))
			continue
		}
		if file := path.Base(env["ORGOPS_REDIS_PASSWORD_FILE"]); file != "redis-"+at.User.Username() {
			failed = append(failed, fmt.Errorf("%s: %s is to log in to Redis as %q with the password in %s", w.name, c.Name,
				at.User.Username(), file))
		}
	}
	return failed
}

// environment is what a container finds there, as far as these manifests say.
func environment(c core.Container, all []runtime.Object) map[string]string {
	maps := map[string]map[string]string{}
	for _, object := range all {
		if o, ok := object.(*core.ConfigMap); ok {
			maps[o.Name] = o.Data
		}
	}
	env := map[string]string{}
	for _, from := range c.EnvFrom {
		if from.ConfigMapRef != nil {
			for name, value := range maps[from.ConfigMapRef.Name] {
				env[name] = value
			}
		}
	}
	for _, e := range c.Env {
		env[e.Name] = e.Value
		if e.ValueFrom != nil && e.ValueFrom.ConfigMapKeyRef != nil {
			env[e.Name] = maps[e.ValueFrom.ConfigMapKeyRef.Name][e.ValueFrom.ConfigMapKeyRef.Key]
		}
	}
	return env
}
