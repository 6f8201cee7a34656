from flambeau.compiler.logs import set_logs as set_logs
