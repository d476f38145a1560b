package main

import "runtime"

// machine is what the figures depend on.
type machine struct {
	Cores int    `json:"cores"`
	OS    string `json:"os"`
	Arch  string `json:"arch"`
	Go    string `json:"go"`
	Redis string `json:"redis"`
}

func machineOf(redisVersion string) machine {
	return machine{Cores: runtime.NumCPU(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		Go: runtime.Version(), Redis: redisVersion}
}
