// Interfering waves, smooth everywhere, so that a last bit of a sine is not seen.
precision highp float;
uniform highp float angle;
varying highp vec2 at;

void main() {
	vec2 p = at;
	vec3 sum = vec3(0.0);
	for (int i = 0; i < 16; i++) {
		float n = float(i);
		float turn = n * 0.39 + angle;
		vec2 d = vec2(cos(turn), sin(turn));
		float wave = sin(dot(p, d) * (1.0 + n * 0.15) + angle + n);
		sum += vec3(wave, wave * cos(n), wave * sin(n));
		p += 0.06 * wave * d.yx;
	}
	gl_FragColor = vec4(0.5 + 0.5 * sin(sum * 0.3), 1.0);
}
