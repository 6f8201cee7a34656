from flambeau.compiler.explanation import ExplainOutput as ExplainOutput
