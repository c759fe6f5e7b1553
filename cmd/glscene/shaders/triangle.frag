precision highp float;
varying highp vec3 shade;

void main() {
	gl_FragColor = vec4(shade, 1.0);
}
