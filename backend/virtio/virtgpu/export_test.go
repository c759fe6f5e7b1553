package virtgpu

// SetLimits lowers the limits of a device that has no guest yet.
func (d *Device) SetLimits(entries, runs int64) {
	d.quotas.entries.max, d.quotas.runs.max = entries, runs
}
