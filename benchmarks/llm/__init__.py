"""What a general language model writes: plans, and answers to chats."""

from benchmarks.llm.chat_prompts import draw_questions

__all__ = ['draw_questions']
